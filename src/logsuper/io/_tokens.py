"""A text file as words, read one by one, with errors that say what should have stood there."""

from __future__ import annotations

import math
import os
from pathlib import Path

FilePath = str | os.PathLike[str]


class Tokens:
    """The words of a file, one after the other."""

    def __init__(self, path: FilePath) -> None:
        self.name = os.fspath(path)
        try:
            self._words = Path(path).read_bytes().decode("ascii").split()
        except UnicodeDecodeError:
            raise ValueError(f"{self.name} is not a text file in the UAI format") from None
        self._at = 0

    @property
    def left(self) -> int:
        """How many words there still are."""
        return len(self._words) - self._at

    def word(self, what: str) -> str:
        """Return the next word."""
        if self.left == 0:
            raise ValueError(f"{self.name} ends where {what} should stand")
        self._at += 1
        return self._words[self._at - 1]

    def integer(self, what: str) -> int:
        """Return the next word as an integer >= 0."""
        word = self.word(what)
        if not word.isdecimal() or len(word) > 18:
            raise ValueError(f"{self.name}: {what} should be an integer >= 0, got {word[:40]!r}")
        return int(word)

    def number(self, what: str) -> float:
        """Return the next word as a finite number >= 0."""
        word = self.word(what)
        try:
            value = float(word)
        except ValueError:
            value = math.nan
        if not 0.0 <= value < math.inf:
            raise ValueError(
                f"{self.name}: {what} should be a finite number >= 0, got {word[:40]!r}"
            )
        return value

    def need(self, count: int, what: str) -> None:
        """Refuse a count that the rest of the file cannot hold, before anything is made for it."""
        if count > self.left:
            raise ValueError(
                f"{self.name} ends too early: {what} take at least {count} words, {self.left} are "
                "left"
            )
