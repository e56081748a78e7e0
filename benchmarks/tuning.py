"""The fastest setting of a peer that reaches an accuracy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from benchmarks.measure import Clock, timed
from benchmarks.outcome import Limit, Outcome
from benchmarks.peers import version
from benchmarks.workloads import Floats, Graph, Workload


@dataclass(frozen=True)
class Setting:
    """One setting of a peer: `solve(theta)` solves one field."""

    name: str
    solve: Callable[[Floats], Floats]


class Iterative(Protocol):
    """A peer whose accuracy can be chosen.

    Created once per grid of pixels (untimed: factorisations, compiled code).
    """

    name: str
    package: str

    def __init__(self, shape: tuple[int, int], alpha: Floats, graph: Graph) -> None:
        """Store the grid, the weights of the edges along its rows and columns, and all edges."""

    def default(self) -> Setting:
        """Return the default setting."""

    def ladders(self) -> Iterator[Iterator[Setting]]:
        """Return, for each of its methods, the settings from rough to accurate."""


def make(cls: type[Iterative], work: Workload, title: str, outcome: Outcome) -> Iterative | None:
    """Return the peer for a workload of 50x50 images; report why if there is none."""
    try:
        if version(cls.package) is not None:
            return cls((50, 50), work.alpha, work.graph)
        why = f"{cls.package} is not installed"
    except Exception as problem:
        # Built against other versions than are there, or a library of the system is missing.
        why = f"{type(problem).__name__}: {problem}"
    note = f"not compared: {why}"
    outcome.limits.append(Limit(work.name, f"{title}, {cls.name}", None, "", None, note))
    return None


def fastest(
    ladders: Iterable[Iterable[Setting]],
    error: Callable[[list[Floats]], float],
    theta: Floats,
    levels: list[float],
    clock: Clock,
) -> dict[float, Setting]:
    """Return, for each (descending) level of error, the fastest setting that reaches it, if any.

    The choice uses the true errors, which a user would not know: it is the peer's best case. The
    settings of a method are tried until one reaches the last level, or is slower than one that did.
    """
    found: dict[float, tuple[float, Setting]] = {}
    for ladder in ladders:
        for setting in ladder:
            spent = []
            for _ in range(2):
                answers, seconds = timed(lambda s=setting: [s.solve(t) for t in theta], clock)  # type: ignore[misc]
                spent.append(seconds)
            seconds = min(spent)
            reached = error(answers)
            for level in levels:
                if reached <= level and seconds < found.get(level, (float("inf"), None))[0]:
                    found[level] = (seconds, setting)
            if reached <= levels[-1] or seconds > found.get(levels[-1], (float("inf"), None))[0]:
                break
    return {level: found[level][1] for level in levels if level in found}
