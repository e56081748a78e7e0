"""Pages, tables and pictures for the reports of experiments and the command line."""

from logsuper.report import _chart as chart
from logsuper.report import _sheet as sheet
from logsuper.report._origin import commit, duration, versions
from logsuper.report._page import (
    Finding,
    Page,
    Picture,
    Section,
    Table,
    Words,
    least,
    show,
    write_files,
)

__all__ = [
    "Finding", "Page", "Picture", "Section", "Table", "Words", "chart", "commit", "duration",
    "least", "sheet", "show", "versions", "write_files",
]  # fmt: skip
