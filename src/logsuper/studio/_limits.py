"""Limits of a server, and the one line that whoever exceeds them is told."""

from __future__ import annotations

import dataclasses

__all__ = ["Limits", "Refusal"]


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a server accepts.

    Attributes
    ----------
    upload : int
        Bytes of a file.
    pixels : int
        Pixels of an image, by the head of its file, before it is decoded.
    work : int
        Pixels that are worked on; of larger images every second, third, ... row and column is.
    message : int
        Bytes of a message from a tab.
    tabs : int
        Tabs that are open at a time.
    idle : float
        Seconds without a message after which a tab is closed.
    """

    upload: int = 32 << 20
    pixels: int = 40_000_000
    work: int = 800_000
    message: int = 4 << 20
    tabs: int = 8
    idle: float = 3600.0


class Refusal(Exception):
    """A request that is not granted.

    Parameters
    ----------
    line : str
        What is wrong and what to do, in one line.
    status : int, default 400
        Of the answer, by HTTP.
    """

    def __init__(self, line: str, status: int = 400) -> None:
        super().__init__(line)
        self.line, self.status = line, status
