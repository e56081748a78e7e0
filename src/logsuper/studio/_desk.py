"""Work of one tab in a thread: one piece at a time, and what is out of date is dropped."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Any

from logsuper._base import listening
from logsuper.studio._limits import Refusal

__all__ = ["Check", "Desk", "Outdated"]

Check = Callable[[], None]
"""Called by work now and then; raises `Outdated` if nobody waits for it any more."""

Work = Callable[[Check], Any]


class Outdated(Exception):
    """Work that something newer has replaced."""


@dataclasses.dataclass
class _Piece:
    rank: int
    work: Work
    done: Callable[[Any], Awaitable[None]]
    dropped: threading.Event = dataclasses.field(default_factory=threading.Event)

    def check(self) -> None:
        if self.dropped.is_set():
            raise Outdated


class Desk:
    """Runs pieces of work in order of their ranks.

    A rank stands for a stage of the work (open an image, learn, cut, settle, refine, sample), and
    each stage needs those before it. A new piece drops all of the same and of later stages. What
    runs is stopped, too, unless it is a cut, which is done before the next one could begin.

    Parameters
    ----------
    pool : Executor
    failed : callable
        Awaited with the line that says what went wrong.
    """

    OPEN, LEARN, CUT, SETTLE, REFINE, SAMPLE = range(6)

    def __init__(self, pool: Executor, failed: Callable[[str], Awaitable[None]]) -> None:
        self._pool, self._failed = pool, failed
        self._waiting: dict[int, _Piece] = {}
        self._running: _Piece | None = None
        self._news = asyncio.Event()
        self._lock = threading.Lock()

    def put(self, rank: int, work: Work, done: Callable[[Any], Awaitable[None]]) -> None:
        """Add a piece of work; `done` is awaited with its result."""
        self.drop(rank)
        self._waiting[rank] = _Piece(rank, work, done)
        self._news.set()

    def drop(self, rank: int = 0) -> None:
        """Forget all work of a rank and of later ones."""
        self._waiting = {r: piece for r, piece in self._waiting.items() if r < rank}
        running = self._running
        if running is not None and running.rank >= rank and (running.rank, rank) != (self.CUT,) * 2:
            running.dropped.set()

    def alone(self, work: Work) -> Any:
        """Do a piece of work at once, in this thread, while nothing else is done here."""
        with self._lock:
            return work(lambda: None)

    async def run(self) -> None:
        """Work until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await self._news.wait()
            if not self._waiting:
                self._news.clear()
                continue
            piece = self._waiting.pop(min(self._waiting))
            self._running = piece
            try:
                found = await loop.run_in_executor(self._pool, self._do, piece)
                if not piece.dropped.is_set():
                    await piece.done(found)
            except Outdated:
                pass
            except (Refusal, ValueError, MemoryError) as error:
                if not piece.dropped.is_set():
                    await self._failed(" ".join(str(error).split())[:500])
            except asyncio.CancelledError:
                piece.dropped.set()
                raise
            except Exception as error:
                logging.getLogger(__name__).exception("studio: unexpected error")
                await self._failed(f"unexpected {type(error).__name__}; the terminal has more")
            finally:
                self._running = None

    def _do(self, piece: _Piece) -> Any:
        with self._lock, listening(piece.check):
            piece.check()
            return piece.work(piece.check)
