"""The table type of all reports: Markdown and CSV here, HTML by the page template."""

from __future__ import annotations

import csv
import dataclasses
import io
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from logsuper._base import FloatArray

# Characters with a meaning in Markdown; an ampersand only if it begins an entity.
_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~$]|&(?=#?\w+;))")
# A number, possibly with an error and a short unit, or a dash; "60 images" is text.
_NUMBER = re.compile(r"(?!.*[^\W\d_]{4})([-+−±<>≤≥≈~]?\s*\.?\d|[-–—]?$)")
_SHOWN, _FULL = "z.2f", ".9g"


@dataclasses.dataclass(frozen=True)
class Table:
    """A table; its cells are converted to text on creation, so that all formats agree.

    Attributes
    ----------
    title : str
    head : sequence of str
    rows : sequence of sequence
        Cells. Text and integers are shown unchanged, NaN and None as empty cells, other numbers by
        `format`. A pair is a number and its error; an array has the numbers of several seeds, shown
        as mean ± standard deviation.
    note : str
        Explanation below the table; may be empty.
    name : str
        Name of its CSV file, without the suffix.
    format : str
        Format specification of numbers.
    data : sequence of sequence
        All numbers for the CSV file, the head first; the shown cells if empty.
    best, quoted : frozenset of (int, int)
        Rows and columns of cells in bold, and of cells quoted from other publications (italics).

    Examples
    --------
    >>> import numpy as np
    >>> from logsuper.report import Table
    >>> table = Table("Errors", ["noise", "error"], [["10 %", np.array([1.0, 1.5])]])
    >>> print(table.markdown())
    | noise | error |
    | ---: | ---: |
    | 10 % | 1.25 ± 0.25 |
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""
    name: str = ""
    format: str = _SHOWN
    data: Sequence[Sequence[Any]] = ()
    best: frozenset[tuple[int, int]] = frozenset()
    quoted: frozenset[tuple[int, int]] = frozenset()

    def __post_init__(self) -> None:
        object.__setattr__(self, "head", tuple(self.head))
        for name, form in (("rows", self.format), ("data", _FULL)):
            cells = tuple(tuple(show(x, form) for x in row) for row in getattr(self, name))
            object.__setattr__(self, name, cells)

    @property
    def numeric(self) -> list[bool]:
        """Whether each column has only numbers or dashes, and is aligned to the right."""
        return [all(_NUMBER.match(row[j]) for row in self.rows) for j in range(len(self.head))]

    def markdown(self) -> str:
        """Return the table as Markdown, without its title and note."""
        lines = [map(as_markdown, self.head), ["---:" if n else "---" for n in self.numeric]]
        lines += [[self._marked(i, j) for j in range(len(row))] for i, row in enumerate(self.rows)]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)

    def csv(self) -> str:
        """Return the content of the CSV file."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(self.data or (self.head, *self.rows))
        return text.getvalue()

    def _marked(self, i: int, j: int) -> str:
        """Return a cell for Markdown: best cells in bold, quoted cells in italics."""
        marks = "**" * ((i, j) in self.best) + "*" * ((i, j) in self.quoted)
        text = as_markdown(self.rows[i][j])
        return f"{marks}{text}{marks}" if text else ""


def least(numbers: FloatArray, row: int = 0, column: int = 1) -> frozenset[tuple[int, int]]:
    """Return the cells with the least number of each column; numbers[0, 0] is at (row, column).

    Examples
    --------
    >>> import numpy as np
    >>> from logsuper.report import least
    >>> sorted(least(np.array([[1.0, 5.0], [2.0, 4.0]])))
    [(0, 1), (1, 2)]
    """
    return frozenset((row + int(i), column + j) for j, i in enumerate(numbers.argmin(axis=0)))


def as_markdown(text: str) -> str:
    """Return text escaped for Markdown, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.splitlines()))


def show(cell: Any, form: str = _SHOWN) -> str:
    """Return a cell of a table as text; see `Table`."""
    if isinstance(cell, np.ndarray):
        cell = (cell.mean(), cell.std()) if len(cell) > 1 else cell[0]
    if isinstance(cell, tuple):
        number, error = cell
        return "" if np.isnan(number) else f"{show(number, form)} ± {show(error, form)}"
    if not isinstance(cell, float):
        return "" if cell is None else str(cell)
    return "" if np.isnan(cell) else format(cell, form)
