"""Reports as files, by suffix: html, md, json, junit.xml, sarif."""

from volta_pass.reports.files import SUFFIXES, check_report_path, write_report

__all__ = ["SUFFIXES", "check_report_path", "write_report"]
