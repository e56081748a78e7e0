"""Reports of the measurements: a table for the terminal, Markdown for the docs, and JSON."""

from __future__ import annotations

import importlib
import os
import platform
import shlex
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from rich import table as rich
from rich.console import Console
from rich.text import Text

from benchmarks.measure import Settings, Spread
from benchmarks.outcome import Accuracy, Limit, Outcome, Row
from benchmarks.peers import PEERS, version
from logsuper.report import Table

HEAD = [
    "entry", "peer", "ours", "peer: build and solve", "peer: solve alone", "ratio, 1 thread",
    "floor", "", "ratio to its solve alone", "ratio, all cores", "ours worse by", "chunks",
]  # fmt: skip


ACCURACY_HEAD = [
    "entry", "peer", "ours", "peer's", "ratio, 1 thread", "ratio, all cores",
    "error of ours", "error of the peer", "setting of the peer", "chunks",
]  # fmt: skip

LIMIT_HEAD = ["quantity", "measured", "limit", "", "note"]

PACKAGES = [
    *dict.fromkeys(peer.package for peer in PEERS.values()),
    *("prox_tv", "osqp", "pgmax", "jax", "pgmpy"),
]

INTRODUCTION = (
    "`make bench` prints the same to the terminal. Ratios are the peer's time over ours: above 1 "
    "ours is faster, below 1 the peer is. A peer builds a graph for each field and then solves it; "
    "ours takes the field as it is. Both ratios are printed: to building and solving together, "
    "which is what a user waits for, and to the peer's maximum flow alone, with the labels read."
)

MORE_PEERS = (
    "`make bench` installs the peers of the extra `bench`. Two more are measured where they are "
    "there: prox_tv is built against LAPACKE (Debian: `apt install liblapacke-dev`, then "
    "`pip install prox_tv`), and PGMax 0.6.1 needs a JAX that still has `jax.lib.xla_bridge` "
    "(`pip install pgmax 'jax<0.7'`; it brings TensorFlow, too). Install them into `.venv`."
)


def processor() -> str:
    """Return the processor's name as the system gives it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def environment(settings: Settings) -> dict[str, str]:
    """Return the versions and the machine that the numbers depend on."""
    ls = importlib.import_module("logsuper")
    try:
        compiled = importlib.import_module("logsuper._kernels")
        kernels = f"compiled, {'AVX2' if compiled.has_avx2() else 'baseline'}"
    except ImportError:
        kernels = "MISSING: the slow fallback is measured"
    found = {
        "processor": f"{processor()}, {usable_cores()} cores usable",
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "logsuper": f"{ls.__version__}, kernels {kernels}",
        "numpy": metadata.version("numpy"),
    }
    for package in PACKAGES:
        found[package] = version(package) or "not installed, not measured"
    load = " ".join(f"{x:.2f}" for x in os.getloadavg()) if hasattr(os, "getloadavg") else "unknown"
    found["threads"] = f"ours 1 and {settings.cores}; the peers 1"
    found["clock"] = (
        f"{settings.clock} on one thread, wall on all cores; load before the run {load}"
    )
    return found


def duration(seconds: float) -> str:
    """Format a time with three digits and a fitting unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _spread(spread: Spread) -> str:
    median, low, high = (
        f"{x:.3g}" if x < 1000 else f"{x:.0f}" for x in (spread.median, spread.low, spread.high)
    )
    return f"{median}x [{low}, {high}]"


def _verdict(passed: bool | None, target: bool = False) -> str:
    if passed is None:
        return ""
    return "pass" if passed else ("below target" if target else "FAIL")


def _cells(row: Row) -> list[str]:
    comparison = row.comparison
    floor = "" if row.floor is None else f"{'target ' if row.target else ''}{row.floor:g}x"
    flow = comparison.ratio_flow
    worse = f"{row.worst:.1e}"
    if row.best < -1e-9:
        worse += f" (peer by {-row.best:.1e})"
    return [
        row.title,
        comparison.peer,
        duration(Spread.of(comparison.ours).median),
        duration(Spread.of(comparison.theirs).median),
        "" if flow is None else duration(Spread.of(comparison.flows).median),
        _spread(comparison.ratio),
        floor,
        _verdict(row.passed, row.target),
        "" if flow is None else _spread(flow),
        _spread(comparison.ratio_all),
        f"{worse}, {row.compared} compared{'; ' + row.note if row.note else ''}",
        str(len(comparison.theirs)),
    ]


def _accuracy_cells(row: Accuracy) -> list[str]:
    comparison = row.comparison
    return [
        row.title,
        comparison.peer,
        duration(Spread.of(comparison.ours).median),
        duration(Spread.of(comparison.theirs).median),
        _spread(comparison.ratio),
        _spread(comparison.ratio_all) if row.threads else "",
        f"{row.error:.1e}",
        f"{row.peer_error:.1e}",
        row.note,
        str(len(comparison.theirs)),
    ]


def _limit_cells(limit: Limit) -> list[str]:
    bound = "" if limit.limit is None else f"at most {limit.limit:g}"
    measured = "" if limit.value is None else f"{limit.value:.3g} {limit.unit}"
    return [
        limit.title,
        measured,
        bound,
        _verdict(limit.passed),
        limit.note,
    ]


LEGEND = [
    "Times are medians, per solve, per point (min-norm) or per image (marginals and the L-field "
    "bound). Ratios are medians over pairs of neighbouring chunks, with quartiles. Floors are for "
    "one thread and PyMaxflow with a new graph per field. 'ours worse by': the largest relative "
    "loss of energy against the peer (negative: ours is better), recomputed in float64 from the "
    "labels.",
    "L-field bound: ours finds the min-norm point by max-flows, and is exact up to rounding at any "
    "accuracy that is asked; its time is that to its error, a certified duality gap, relative to "
    "the total-variation objective 1/2 |w - t|^2 + sum_e w_e |w_i - w_j|. The peers iterate: "
    "'as it comes' is without options, 'to 1e-6' the fastest of all methods and iteration numbers "
    "that keeps that gap on every image, chosen with the optimum known (OSQP adapts to the solves "
    "before, so that its gap may move a little). Their points lie outside "
    "of the polytope, so their values are estimates, not bounds.",
    "Marginals of 50x50 images, on one thread: errors are means over the pixels, against certified "
    "brackets ('strips'). 'tuned' is the peer's fastest setting that is as accurate as ours or, "
    "where ours is better, as its own 100 iterations; the errors are known to that choice, and "
    "compiling is not in the times. 'bethe' and 'mean_field' of ours run to convergence from both "
    "ends, which tells whether there are other fixed points; 'strips' takes the smallest window "
    "that is as accurate as the peer's 100 iterations. Exact marginals: the largest error, against "
    "sums over the states of rows.",
]


def show(console: Console, settings_: dict[str, str], outcome: Outcome) -> None:
    """Print everything to a terminal."""
    for key, value in settings_.items():
        console.print(f"{key:>10}  {value}", highlight=False, markup=False)
    for table in _tables(outcome):
        shown = rich.Table(show_lines=False, header_style="bold")
        for name in table.head:
            shown.add_column(name, overflow="fold")
        last = ""
        for first, *others in table.rows:
            if last and first != last:
                shown.add_section()
            shown.add_row(*map(_coloured, ["" if first == last else first, *others]))
            last = first
        console.print(shown)
    for paragraph in LEGEND:
        console.print(paragraph, style="dim", highlight=False, markup=False)
    for failure in outcome.failures:
        console.print(f"WRONG: {failure}", style="bold red", highlight=False, markup=False)


def _coloured(cell: str) -> Text:
    style = {"pass": "green", "FAIL": "bold red", "below target": "yellow"}
    return Text(cell, style.get(cell, ""))


def _tables(outcome: Outcome) -> list[Table]:
    tables = [
        Table("Ratios", HEAD, [_cells(row) for row in outcome.rows]),
        Table("Accuracies", ACCURACY_HEAD, [_accuracy_cells(row) for row in outcome.accuracies]),
        Table("Limits", LIMIT_HEAD, [_limit_cells(limit) for limit in outcome.limits]),
    ]
    return [table for table in tables if table.rows]


def markdown(settings_: dict[str, str], outcome: Outcome, command: list[str]) -> str:
    """Return everything as Markdown: the whole of docs/benchmarks.md."""
    printed = f"Printed by `{shlex.join(['python', '-m', 'benchmarks', *command])}`."
    lines = ["# Benchmark", "", f"{printed} {INTRODUCTION}", ""]
    lines += [*[f"- {key}: {value}" for key, value in settings_.items()], ""]
    lines += [f"{table.markdown()}\n" for table in _tables(outcome)]
    for paragraph in [*LEGEND, MORE_PEERS]:
        lines += [paragraph, ""]
    lines += [f"**Wrong:** {failure}" for failure in outcome.failures]
    return "\n".join(lines).rstrip() + "\n"


def as_json(
    settings_: dict[str, str], settings: Settings, outcome: Outcome, command: list[str]
) -> dict[str, Any]:
    """Return everything, each chunk's seconds included, as plain data."""

    def plain(row: Row | Accuracy) -> dict[str, Any]:
        ratios = {key: asdict(getattr(row.comparison, key)) for key in ("ratio", "ratio_all")}
        return asdict(row) | ratios

    return {
        "environment": settings_,
        "settings": asdict(settings),
        "command": command,
        "rows": [plain(row) | {"passed": row.passed} for row in outcome.rows],
        "accuracies": [plain(row) for row in outcome.accuracies],
        "limits": [asdict(limit) | {"passed": limit.passed} for limit in outcome.limits],
        "failures": outcome.failures,
    }
