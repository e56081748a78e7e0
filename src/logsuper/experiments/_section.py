"""What an experiment has to say, before it is written as HTML, Markdown or CSV."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from logsuper._base import FloatArray

__all__ = ["Grid", "Picture", "Section", "spread", "spread_note"]


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
    seeds : tuple of int
        Those that it is about.
    images : bool
        Whether it is about the images of the setting.
    """

    name: str
    title: str
    text: tuple[str, ...]
    grids: tuple[Grid, ...] = ()
    pictures: tuple[Picture, ...] = ()
    seconds: float = 0.0
    seeds: tuple[int, ...] = ()
    images: bool = True


def spread(numbers: FloatArray) -> str:
    """Return the mean of the numbers of several seeds, with the standard deviation if several."""
    more = f" ± {numbers.std():.2f}" if len(numbers) > 1 else ""
    return f"{numbers.mean():.2f}{more}"


def spread_note(seeds: Sequence[int]) -> str:
    """Return what `spread` shows."""
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    return f"mean ± standard deviation over {len(seeds)} seeds of the noise"
