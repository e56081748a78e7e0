"""Text on the terminal: printed as it is, whatever a user or a file has put into it."""

from __future__ import annotations

import io
import sys
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from logsuper.report import Table

__all__ = ["console", "is_plain", "one_line", "print_table", "tolerate_encodings"]


def console(stderr: bool = False) -> Console:
    """Return a console that takes no brackets for markup and no colons for emoji."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def print_table(table: Table) -> None:
    """Print a table, or where to find it if the terminal is too narrow."""
    from rich import table as rich
    from rich.text import Text

    screen, shown, needed = console(), rich.Table(title=table.title), 1
    for j, (name, right) in enumerate(zip(table.head, table.numeric, strict=True)):
        # words stay whole, and so do numbers with their units and errors
        cells = [row[j] for row in table.rows]
        whole = [*name.split(), *(cells if right else " ".join(cells).split())]
        width = max(map(len, whole), default=0)
        shown.add_column(
            Text(name), justify="right" if right else "left", min_width=width, overflow="fold"
        )
        needed += width + 3
    for i, row in enumerate(table.rows):
        bold = ("bold" if (i, j) in table.best else "" for j in range(len(row)))
        shown.add_row(*map(Text, row, bold))
    if needed > screen.width and table.name:
        screen.print(f"{table.title}: too wide for this terminal, see {table.name}.csv")
    else:
        screen.print(shown)


def is_plain(text: str) -> bool:
    """Return whether a text has neither control characters nor bytes that are not UTF-8."""
    return not any(map(_is_odd, text))


def one_line(text: str) -> str:
    """Return a text on one line, control characters and bytes that are not UTF-8 escaped."""
    return "".join(repr(c)[1:-1] if _is_odd(c) else c for c in " ".join(text.split()))


def _is_odd(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs")


def tolerate_encodings() -> None:
    """Escape what the encoding of the terminal, or of a pipe, has no code for."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
