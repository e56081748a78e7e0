"""Reading a text file word by word, with errors that say what was expected."""

from __future__ import annotations

import math
import os
from pathlib import Path

FilePath = str | os.PathLike[str]


class Tokens:
    """The words of a file, read in order."""

    def __init__(self, path: FilePath) -> None:
        self.name = os.fspath(path)
        try:
            self._words = Path(path).read_bytes().decode("ascii").split()
        except UnicodeDecodeError:
            raise ValueError(f"{self.name} is not a text file in the UAI format") from None
        self._at = 0

    @property
    def left(self) -> int:
        """Number of words that have not been read."""
        return len(self._words) - self._at

    def words(self, count: int, what: str) -> list[str]:
        """Return the next words; raise a ValueError if the file has fewer."""
        if count > self.left:
            raise ValueError(
                f"{self.name} ends too early: expected {what}, at least {count} words, but "
                f"{self.left} are left"
            )
        self._at += count
        return self._words[self._at - count : self._at]

    def word(self, what: str) -> str:
        """Return the next word."""
        return self.words(1, what)[0]

    def integers(self, count: int, what: str) -> list[int]:
        """Return the next words as integers >= 0."""
        words = self.words(count, what)
        for word in words:
            if not word.isdecimal() or len(word) > 18:
                raise ValueError(
                    f"{self.name}: {what} should be an integer >= 0, got {word[:40]!r}"
                )
        return [int(word) for word in words]

    def integer(self, what: str) -> int:
        """Return the next word as an integer >= 0."""
        return self.integers(1, what)[0]

    def numbers(self, count: int, what: str) -> list[float]:
        """Return the next words as finite numbers >= 0."""
        words = self.words(count, what)
        values = [_number(word) for word in words]
        for word, value in zip(words, values, strict=True):
            if not 0.0 <= value < math.inf:
                raise ValueError(
                    f"{self.name}: {what} should be finite numbers >= 0, got {word[:40]!r}"
                )
        return values


def _number(word: str) -> float:
    """Return a word as a number, NaN if it is not one."""
    try:
        return math.nan if "_" in word else float(word)  # Python's 1_000 is not valid here
    except ValueError:
        return math.nan
