"""The experiments of the paper, each a module with ``run``, and the report of all of them."""

from logsuper.experiments import calibration, figure1, figure2, report, table1, table2

__all__ = ["calibration", "figure1", "figure2", "report", "table1", "table2"]
