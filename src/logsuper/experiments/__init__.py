"""The experiments of the paper, one module with ``run`` each, and their common report."""

from logsuper.experiments._job import Job
from logsuper.experiments._report import EXPERIMENTS, make_page, run_experiment
from logsuper.experiments._setting import Setting, load_setting

__all__ = ["EXPERIMENTS", "Job", "Setting", "load_setting", "make_page", "run_experiment"]
