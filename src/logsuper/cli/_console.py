"""Text on the terminal, printed as it is, whatever it contains."""

from __future__ import annotations

import io
import json
import math
import sys
import unicodedata
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

    from logsuper.report import Table


def console(stderr: bool = False) -> Console:
    """Return a console that interprets neither brackets as markup nor colons as emoji."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def say(text: str) -> None:
    """Print a text as it is, with no line broken."""
    console().print(text, soft_wrap=True)


class Failed(click.ClickException):
    """A failure of a command, with what else its JSON object shall hold.

    Parameters
    ----------
    message : str
    content : dict
        Entries beside "error".
    """

    def __init__(self, message: str, **content: Any) -> None:
        super().__init__(message)
        self.content = content


def print_object(content: dict[str, Any]) -> None:
    """Print one JSON object; what is not finite becomes null."""
    click.echo(json.dumps(_finite(content), allow_nan=False))


def _finite(content: Any) -> Any:
    """Return what JSON can hold: null for what is not finite."""
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def print_table(table: Table) -> None:
    """Print a table; if the terminal is too narrow, say where it is, or break its cells."""
    from rich import table as rich
    from rich.text import Text

    screen, shown = console(), rich.Table(title=table.title)
    columns = [[name, *cells] for name, *cells in zip(table.head, *table.rows, strict=True)]
    # words stay whole, and so do numbers with their units and errors
    whole = [
        [*name.split(), *(cells if right else " ".join(cells).split())]
        for (name, *cells), right in zip(columns, table.numeric, strict=True)
    ]
    widths = [max(map(len, words), default=0) for words in whole]
    fits = sum(width + 3 for width in widths) < screen.width
    if table.name and not fits:
        screen.print(f"{table.title}: too wide for this terminal, see {table.name}.csv")
        return
    for column, width, right in zip(columns, widths, table.numeric, strict=True):
        shown.add_column(
            Text(column[0]),
            justify="right" if right else "left",
            overflow="fold",
            min_width=width if fits else None,
            no_wrap=fits and width == max(map(len, column)),
        )
    for i, row in enumerate(table.rows):
        bold = ("bold" if (i, j) in table.best else "" for j in range(len(row)))
        shown.add_row(*map(Text, row, bold))
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
    """Escape characters that the encoding of the terminal, or of a pipe, does not have."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
