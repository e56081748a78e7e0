"""A report in Markdown, as GitHub shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from logsuper.experiments._pages import Report, numeric
from logsuper.experiments._section import Grid, Picture, Section

__all__ = ["page"]

# What Markdown reads as more than itself; an ampersand only where an entity follows.
_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~$]|&(?=#?\w+;))")


def page(report: Report) -> str:
    """Return the report; its pictures and CSVs are files next to it."""
    facts = [f"- {_plain(name)}: {_fact(name, value)}" for name, value in report.facts]
    parts = [f"# {_plain(report.title)}", _plain(report.lead), "\n".join(facts)]
    for section in report.sections:
        parts += _section(section)
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(section: Section) -> Iterator[str]:
    yield f"## {_plain(section.title)}"
    yield from map(_plain, section.text)
    for grid in section.grids:
        yield f"### {_plain(grid.title)}"
        yield _table(grid)
        yield " ".join(
            part for part in (_plain(grid.note), f"[{grid.name}.csv]({grid.name}.csv)") if part
        )
    private = [picture for picture in section.pictures if not picture.shipped]
    yield from (_picture(picture) for picture in section.pictures if picture.shipped)
    if private:
        yield (
            f"*Pictures that are only in report.html, as they show images that must not be passed "
            f"on: {len(private)}.*"
        )


def _table(grid: Grid) -> str:
    rule = ["---:" if right else "---" for right in numeric(grid)]
    rows = [
        [
            f"**{_plain(cell)}**" if cell and (i, j) in grid.best else _plain(cell)
            for j, cell in enumerate(row)
        ]
        for i, row in enumerate(grid.rows)
    ]
    return "\n".join(map(_row, [[_plain(name) for name in grid.head], rule, *rows]))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _picture(picture: Picture) -> str:
    caption = _plain(picture.caption)
    return f"![{caption}]({picture.name}.png)\n\n*{caption}*"


def _fact(name: str, value: str) -> str:
    return _code(value) if name == "command" else _plain(value)


def _code(text: str) -> str:
    """Return text as code, between more backticks than it has anywhere in a row."""
    line = " ".join(text.splitlines())
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    # Markdown takes off one space at both ends, which keeps backticks there apart from the fence
    return f"{fence} {line} {fence}" if len(fence) > 1 else f"{fence}{line}{fence}"


def _plain(text: str) -> str:
    """Return text that Markdown shows as it is, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.splitlines()))
