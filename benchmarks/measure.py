"""Timing: interleaved chunks, and medians of ratios of successive chunks.

A chunk of ours and a chunk of a peer run right after each other, and their ratio is taken before
any median, since other load of the machine affects both.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from threadpoolctl import threadpool_limits

Clock = Literal["wall", "cpu"]


class Stopwatch:
    """Sum of the seconds spent inside of `with`: the part of a peer's time that is max-flow."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.clock: Clock = "wall"

    def _now(self) -> float:
        return time.perf_counter() if self.clock == "wall" else time.process_time()

    def __enter__(self) -> None:
        self._start = self._now()

    def __exit__(self, *error: object) -> None:
        self.seconds += self._now() - self._start


FLOW = Stopwatch()
"""Runs while a peer computes a maximum flow and reads its labels, not while it builds its graph."""


@dataclass(frozen=True)
class Settings:
    """Duration and clock of the measurements.

    `clock` is for one thread; all cores are always timed by the wall clock.
    """

    repeat: int = 11
    chunk_seconds: float = 0.1
    peer_seconds: float = 20.0
    clock: Clock = "wall"
    quick: bool = False
    cores: int = 1


@dataclass(frozen=True)
class Spread:
    """Median and quartiles."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Summarise some values."""
        low, median, high = np.percentile(list(values), [25.0, 50.0, 75.0])
        return cls(float(median), float(low), float(high))


@dataclass
class Contender:
    """A solver of entries of a batch: `run(indices)` returns one answer per index."""

    name: str
    run: Callable[[np.ndarray[Any, np.dtype[np.int64]]], Any]
    total: int
    chunk: int = 1
    rounds: int = 0
    answers: dict[int, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """One peer against ours: seconds per entry of each chunk, in the order they ran."""

    peer: str
    ours: list[float]
    ours_all: list[float]
    theirs: list[float]
    flows: list[float]
    """The part of `theirs` without building graphs; zeros where a peer builds none."""

    @property
    def ratio_flow(self) -> Spread | None:
        """Return the peer's maximum flow alone over ours, one thread; None if it has none."""
        if not any(self.flows):
            return None
        return Spread.of(t / o for t, o in zip(self.flows, self.ours, strict=True))

    @property
    def ratio(self) -> Spread:
        """Return peer over ours, one thread."""
        return Spread.of(t / o for t, o in zip(self.theirs, self.ours, strict=True))

    @property
    def ratio_all(self) -> Spread:
        """Return peer (one thread) over ours on all cores."""
        return Spread.of(t / o for t, o in zip(self.theirs, self.ours_all, strict=True))


def timed(call: Callable[[], Any], clock: Clock) -> tuple[Any, float]:
    """Run once, return the result and the seconds."""
    now = time.perf_counter if clock == "wall" else time.process_time
    start = now()
    result = call()
    return result, now() - start


def calibrate(peer: Contender, settings: Settings) -> None:
    """Choose chunk size and rounds of a peer from a pilot on its first entry."""
    first = np.zeros(1, dtype=np.int64)
    _, cold = timed(lambda: peer.run(first), "wall")
    seconds = cold if cold > 1.0 else timed(lambda: peer.run(first), "wall")[1]
    peer.chunk = min(max(1, math.ceil(settings.chunk_seconds / seconds)), peer.total)
    affordable = int(settings.peer_seconds / (seconds * peer.chunk))
    peer.rounds = min(settings.repeat, max(affordable, min(3, settings.repeat)))


def interleave(
    ours: Callable[[int], Any], total: int, peers: list[Contender], settings: Settings
) -> tuple[list[Comparison], Any, Any]:
    """Measure ours (one thread, all cores) and each peer in turn, round after round.

    `ours(n_jobs)` solves the whole batch of `total` entries. Peers solve a window of the batch that
    advances with each round; their answers are stored in `Contender.answers`. Returns the
    comparisons and the last answers of ours on one thread and on all cores.
    """
    one, every = ours(1), ours(settings.cores)
    for peer in peers:
        calibrate(peer, settings)
    comparisons = [Comparison(peer.name, [], [], [], []) for peer in peers]
    FLOW.clock = settings.clock
    collecting = gc.isenabled()
    gc.disable()
    try:
        for turn in range(settings.repeat):
            for peer, result in zip(peers, comparisons, strict=True):
                if turn >= peer.rounds:
                    continue
                indices = (turn * peer.chunk + np.arange(peer.chunk)) % total
                # Linear algebra is limited to one thread when one thread is compared.
                with threadpool_limits(1):
                    one, seconds = timed(lambda: ours(1), settings.clock)
                    result.ours.append(seconds / total)
                    FLOW.seconds = 0.0
                    answers, seconds = timed(lambda p=peer, k=indices: p.run(k), settings.clock)  # type: ignore[misc]
                result.theirs.append(seconds / peer.chunk)
                result.flows.append(FLOW.seconds / peer.chunk)
                every, seconds = timed(lambda: ours(settings.cores), "wall")
                result.ours_all.append(seconds / total)
                peer.answers.update(zip(indices.tolist(), answers, strict=True))
    finally:
        if collecting:
            gc.enable()
    return comparisons, one, every
