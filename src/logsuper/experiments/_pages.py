"""What the pages of a report in HTML and in Markdown have in common."""

from __future__ import annotations

import dataclasses
import re

from logsuper.experiments._section import Grid, Section

__all__ = ["Report", "numeric"]

# a number, with an error and a unit if need be, or a dash; "60 images" is text
_NUMBER = re.compile(r"(?!.*[^\W\d_]{4})([-+−±<>≤≥≈~]?\s*\.?\d|[-–—]?$)")


@dataclasses.dataclass(frozen=True)
class Report:
    """Sections under one title.

    Attributes
    ----------
    title : str
    lead : str
        The first paragraph.
    facts : tuple of (str, str)
        How it was made: names and values. A value named "command" is set as code.
    sections : tuple of Section
    """

    title: str
    lead: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]


def numeric(grid: Grid) -> list[bool]:
    """Return which columns have nothing but numbers, or dashes: they are set to the right."""
    return [all(_NUMBER.match(row[j]) for row in grid.rows) for j in range(len(grid.head))]
