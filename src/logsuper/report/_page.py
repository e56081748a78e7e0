"""Report pages, in HTML or Markdown, with texts from templates, and their tables (also CSV)."""

from __future__ import annotations

import base64
import csv
import dataclasses
import io
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import numpy as np
from markupsafe import Markup

from logsuper._base import FloatArray, atomic_write

_TEMPLATES = ("logsuper.report", "templates")


class Finding(NamedTuple):
    """A statement of the paper, and the corresponding result of this run."""

    paper: str
    found: str


@dataclasses.dataclass(frozen=True)
class Picture:
    """A PNG with its caption.

    Attributes
    ----------
    name : str
        Name of its file, without the suffix.
    png : bytes
    caption : str
    shipped : bool
        Whether it shows only images that ship with the package, so that it may be published.
    """

    name: str
    png: bytes
    caption: str
    shipped: bool = True

    @property
    def source(self) -> str:
        """The picture as a data URL."""
        return f"data:image/png;base64,{base64.b64encode(self.png).decode()}"


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of a page.

    Attributes
    ----------
    name : str
        Identifier, such as "table1".
    title : str
    text : tuple of str or Finding
        Paragraphs of plain text, before the tables.
    tables : tuple of Table
    pictures : tuple of Picture
    seeds : tuple of int
        The seeds of the numbers in it.
    seconds : float
        Time to compute them in this run, without parts that were finished in an earlier run.
    images : bool
        Whether it uses the images of the setting.
    """

    name: str
    title: str
    text: tuple[str | Finding, ...] = ()
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()
    seeds: tuple[int, ...] = ()
    seconds: float = 0.0
    images: bool = True


@dataclasses.dataclass(frozen=True)
class Page:
    """Sections under one title.

    Attributes
    ----------
    title : str
    lead : str
        The first paragraph.
    facts : tuple of (str, str)
        How the page was made: names and values. The value of "command" is shown as code.
    sections : tuple of Section

    Examples
    --------
    >>> from logsuper.report import Page, Section
    >>> page = Page("Fish & chips", "A test.", (("command", "cook"),), (Section("one", "One"),))
    >>> "<h1>Fish &amp; chips</h1>" in page.html()
    True
    >>> print(page.markdown())
    # Fish & chips
    <BLANKLINE>
    A test.
    <BLANKLINE>
    - command: `cook`
    <BLANKLINE>
    ## One
    <BLANKLINE>
    """

    title: str
    lead: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]

    def html(self) -> str:
        """Return the page with embedded pictures; it needs no other file, script or network."""
        environment = make_environment(*_TEMPLATES, autoescape=True)
        return environment.get_template("page.html").render(page=self)

    def markdown(self) -> str:
        """Return the page as GitHub Markdown; its pictures and CSV files are stored next to it."""
        environment = make_environment(*_TEMPLATES, finalize=_escape)
        environment.filters["code"] = _code
        text = environment.get_template("page.md").render(page=self)
        return re.sub(r"\n{3,}", "\n\n", text).rstrip("\n") + "\n"

    def files(self) -> dict[str, bytes]:
        """Return ``report.html``, ``report.md``, one CSV per table, and pictures for Markdown.

        Pictures of images that do not ship with the package are in the HTML page only.
        """
        files: dict[str, bytes] = {}
        for section in self.sections:
            named = [(f"{table.name}.csv", table.csv().encode()) for table in section.tables]
            named += [(f"{p.name}.png", p.png) for p in section.pictures if p.shipped]
            for name, content in named:
                if name in files:
                    raise ValueError(f"two parts of the report would be written to {name}")
                files[name] = content
        return {"report.html": self.html().encode(), "report.md": self.markdown().encode(), **files}


def write_files(files: Mapping[str, bytes], out: str | os.PathLike[str]) -> list[Path]:
    """Write files atomically into a folder, which is created if necessary."""
    paths = [Path(out) / name for name in files]
    for path, content in zip(paths, files.values(), strict=True):
        with atomic_write(path) as file:
            file.write(content)
    return paths


def make_environment(package: str, folder: str, **options: Any) -> jinja2.Environment:
    """Return an environment for the templates in a folder of a package."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader(package, folder),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **options,
    )


def _escape(value: Any) -> str:
    """Return a value of a Markdown template as text, escaped unless it is marked as safe."""
    return value if isinstance(value, Markup) else as_markdown(str(value))


def _code(text: str) -> Markup:
    """Return text as Markdown code, fenced by more backticks than it has in a row."""
    line = " ".join(text.splitlines())
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    # Markdown strips one space at each end, which separates backticks in the text from the fence
    space = " " * (len(fence) > 1)
    return Markup(f"{fence}{space}{line}{space}{fence}")


class Words:
    """The texts of a template, filled in.

    A template names its texts by ``{% set name %} ... {% endset %}``. Empty lines separate
    paragraphs; ``=>`` separates a statement of the paper from the result of this run. A missing
    value is an error.

    Parameters
    ----------
    package : str
        The package with the folder ``words``.
    template : str
        Name of a file in that folder, without its suffix ``.txt``.
    **values
        Variables of the template. A number is written as ``{{ value | form(".2f") }}``, several
        numbers as ``{{ values | each(".2f") }}``, with slashes between them.
    """

    def __init__(self, package: str, template: str, **values: Any) -> None:
        # plain text, without autoescape: the page escapes it
        environment = make_environment(package, "words")
        environment.filters |= {"form": format, "each": _each}
        self._texts = vars(environment.get_template(f"{template}.txt").make_module(values))

    def __getitem__(self, name: str) -> str:
        """Return a text as one line."""
        return " ".join(str(self._texts[name]).split())

    def section(self, name: str, **parts: Any) -> Section:
        """Return the section with the title and the text of this template."""
        return Section(name, self["title"], self.paragraphs("text"), **parts)

    def table(self, name: str, head: Sequence[str], rows: Sequence[Any], **options: Any) -> Table:
        """Return a table titled ``name_title`` with the note ``name_note`` of this template."""
        title, note = self[f"{name}_title"], self[f"{name}_note"]
        return Table(title, head, rows, note, name, **options)

    def paragraphs(self, name: str) -> tuple[str | Finding, ...]:
        """Return the paragraphs of a text."""
        found: list[str | Finding] = []
        for paragraph in re.split(r"\n\s*\n", str(self._texts[name]).strip()):
            words, _, answer = " ".join(paragraph.split()).partition(" => ")
            found.append(Finding(words, answer) if answer else words)
        return tuple(found)


def _each(values: Iterable[Any], form: str) -> str:
    return "/".join(format(value, form) for value in values)


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
