"""Results of a run, for the report."""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks.measure import Comparison


@dataclass(frozen=True)
class Row:
    """One entry against one peer."""

    entry: str
    title: str
    comparison: Comparison
    floor: float | None
    target: bool
    compared: int
    worst: float
    best: float
    note: str = ""

    @property
    def passed(self) -> bool | None:
        """Return whether the ratio reaches its floor; None without one."""
        return None if self.floor is None else self.comparison.ratio.median >= self.floor


@dataclass(frozen=True)
class Accuracy:
    """One entry against one peer that is not exact, with errors and times.

    `threads` says whether ours was measured on all cores as well.
    """

    entry: str
    title: str
    comparison: Comparison
    error: float
    peer_error: float
    threads: bool
    note: str = ""


@dataclass(frozen=True)
class Limit:
    """One measured quantity that must stay below a limit."""

    entry: str
    title: str
    value: float | None
    unit: str
    limit: float | None
    note: str = ""

    @property
    def passed(self) -> bool | None:
        """Return whether the value keeps the limit; None without one."""
        if self.limit is None or self.value is None:
            return None
        return self.value <= self.limit


@dataclass
class Outcome:
    """All measurements of a run, and its failures."""

    rows: list[Row] = field(default_factory=list)
    accuracies: list[Accuracy] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
