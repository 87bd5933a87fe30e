"""Many checks and validations at once, in processes of our own or on any ``concurrent.futures`` executor."""

from volta_pass.parallel.many import Outcome, check_many, check_outcomes, validate_many
from volta_pass.parallel.pool import Lost, run_tasks

__all__ = ["Lost", "Outcome", "check_many", "check_outcomes", "run_tasks", "validate_many"]
