"""Text on the terminal: printed as it is, whatever a user or a file has put into it."""

from __future__ import annotations

import io
import sys
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["console", "is_plain", "one_line", "tolerate_encodings"]


def console(stderr: bool = False) -> Console:
    """Return a console that takes no brackets for markup and no colons for emoji."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


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
