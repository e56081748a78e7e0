"""What an experiment has to say, before it is written as HTML, Markdown or CSV."""

from __future__ import annotations

import dataclasses

__all__ = ["Grid", "Picture", "Section"]


@dataclasses.dataclass(frozen=True)
class Grid:
    """A table.

    Attributes
    ----------
    name : str
        Of its CSV file, without the ending.
    title : str
    head : tuple of str
    rows : tuple of tuple of str
        Cells as they are shown.
    note : str
        What a reader must know to read it; may be empty.
    csv : tuple of tuple of str
        The full numbers, the head first, for the CSV file; the shown cells if empty.
    best : frozenset of (int, int)
        Row and column of cells to be set in bold.
    """

    name: str
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    csv: tuple[tuple[str, ...], ...] = ()
    best: frozenset[tuple[int, int]] = frozenset()


@dataclasses.dataclass(frozen=True)
class Picture:
    """A PNG with its caption.

    Attributes
    ----------
    name : str
        Of its file, without the ending.
    png : bytes
    caption : str
    shipped : bool
        Whether it shows nothing but what ships with the package, so that it may be published.
    """

    name: str
    png: bytes
    caption: str
    shipped: bool = True


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of a report.

    Attributes
    ----------
    name : str
        "table1", for instance.
    title : str
    text : tuple of str
        Paragraphs of plain text, before the tables.
    grids : tuple of Grid
    pictures : tuple of Picture
    seconds : float
        How long its parts took in this run; those that were done before take none.
    """

    name: str
    title: str
    text: tuple[str, ...]
    grids: tuple[Grid, ...] = ()
    pictures: tuple[Picture, ...] = ()
    seconds: float = 0.0
