"""The entries of the benchmark: what is timed, against which peers, and how answers compare."""

from __future__ import annotations

import importlib
import json
import operator
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatch
from functools import reduce
from typing import Any

import numpy as np

from benchmarks import workloads
from benchmarks.lfield import run_lfield
from benchmarks.marginals import METHODS, run_approximate, run_exact
from benchmarks.measure import Comparison, Contender, Settings, Spread, interleave, timed
from benchmarks.outcome import Limit, Outcome, Row
from benchmarks.peers import PEERS, Peer, divide_and_conquer, version
from benchmarks.workloads import Floats, Labels, Workload

TOLERANCE = 1e-6
"""Maximum relative excess of our energy over PyMaxflow's; above, the run fails."""

SAMPLES = 100
KEY = 20_160_815

ALPHAS = {"1": np.ones(2), "2": np.array([1.05, 2.2])}
"""Weights of the edges along rows and columns: equal ones, and ones learned from silhouettes."""


def _installed(names: tuple[str, ...]) -> dict[str, type[Peer]]:
    return {name: PEERS[name] for name in names if version(PEERS[name].package)}


def _relative(ours: Floats, theirs: Floats) -> Floats:
    """Return how much worse ours are (energies are maximised), relative; negative if better."""
    difference: Floats = (theirs - ours) / np.maximum(1.0, np.abs(theirs))
    return difference


def _rows(
    work: Workload,
    comparisons: list[Comparison],
    worse: dict[str, Floats],
    outcome: Outcome,
    notes: dict[str, str] | None = None,
) -> None:
    """Record the comparisons of one entry, and failures where our energy is worse."""
    for comparison in comparisons:
        peer = comparison.peer
        gaps = worse[peer]
        exact = peer.startswith("PyMaxflow")
        if exact and not bool(np.all(gaps <= TOLERANCE)):
            outcome.failures.append(
                f"{work.name}: ours is worse than {peer} by {np.nanmax(gaps):.3g} relative "
                f"on {int((~(gaps <= TOLERANCE)).sum())} of {len(gaps)} entries"
            )
        floor = work.floor if peer == "PyMaxflow" else None
        note = (notes or {}).get(peer, "")
        outcome.rows.append(
            Row(
                work.name,
                work.title,
                comparison,
                floor,
                work.target,
                len(gaps),
                float(gaps.max()),
                float(gaps.min()),
                note,
            )
        )


def run_cuts(work: Workload, settings: Settings, outcome: Outcome) -> None:
    """Time a batch of cuts, and compare the energy of every entry that a peer solved."""
    ls = importlib.import_module("logsuper")
    prepared = ls.prepare(work.functions())
    bound = float(np.abs(work.theta).max())
    arguments = {"edge_weights": _in_order(work, prepared.edges)} if work.edge_weights else {}

    def ours(n_jobs: int) -> Any:
        return prepared.maximize(work.theta, work.alpha, n_jobs=n_jobs, **arguments)

    own = work.graph.weights.ndim == 2

    def contender(name: str, cls: type[Peer]) -> Contender:
        kept = None if own else cls(work.graph, bound)

        def run(indices: Any) -> list[Labels]:
            return [(kept or cls(work.graph.row(k), bound)).solve(work.theta[k]) for k in indices]

        return Contender(name, run, len(work.theta))

    peers = [contender(name, cls) for name, cls in _installed(work.peers).items()]
    comparisons, one, every = interleave(ours, len(work.theta), peers, settings)

    energies = work.graph.energies(work.theta, np.asarray(one[0], dtype=np.uint8))
    _check_ours(work, energies, one, every, outcome)
    worse = {}
    for peer in peers:
        solved = np.array(sorted(peer.answers))
        labels: Labels = np.stack([peer.answers[k] for k in solved])
        graph = replace(work.graph, weights=work.graph.weights[solved]) if own else work.graph
        worse[peer.name] = _relative(energies[solved], graph.energies(work.theta[solved], labels))
    _rows(work, comparisons, worse, outcome)


def _in_order(work: Workload, edges: Any) -> Floats:
    """Return the weights of the graph in the order of the library's edges."""
    mine, theirs = work.graph.edges @ [work.graph.n, 1], np.asarray(edges) @ [work.graph.n, 1]
    if not np.array_equal(np.sort(mine), np.sort(theirs)):
        raise ValueError("the library's edges are not those of the workload")
    order = np.empty(len(mine), dtype=np.int64)
    order[np.argsort(theirs)] = np.argsort(mine)
    return np.ascontiguousarray(work.graph.weights[..., order])


def _check_ours(work: Workload, energies: Floats, one: Any, every: Any, outcome: Outcome) -> None:
    """Check that the values returned are the energies, and the same on all cores."""
    others = work.graph.energies(work.theta, np.asarray(every[0], dtype=np.uint8))
    for what, values in (("the value returned", one[1]), ("the energy on all cores", others)):
        gap = float(np.abs(_relative(np.asarray(values), energies)).max())
        if not gap <= TOLERANCE:
            outcome.failures.append(
                f"{work.name}: {what} differs from the energy by {gap:.3g} relative"
            )


def run_min_norm(work: Workload, settings: Settings, outcome: Outcome) -> None:
    """Time the min-norm point of cut - theta against the same algorithm on the peers' cuts."""
    ls = importlib.import_module("logsuper")
    terms = [float(a) * f for a, f in zip(work.alpha, work.functions(), strict=True)]
    cut = reduce(operator.add, terms)
    problems = [cut - ls.Modular(theta) for theta in work.theta]

    def ours(n_jobs: int) -> Floats:
        # On one thread one call per problem, as a user would; threads work on the batch of fields.
        if n_jobs == 1:
            return np.stack([ls.min_norm_point(f, n_jobs=1).s for f in problems])
        return np.asarray(ls.min_norm_point(cut, theta=work.theta, n_jobs=n_jobs).s)

    def contender(name: str, cls: type[Peer]) -> Contender:
        def run(indices: Any) -> list[Floats]:
            return [divide_and_conquer(cls, work.graph, -work.theta[k]) for k in indices]

        return Contender(name, run, len(problems))

    peers = [contender(name, cls) for name, cls in _installed(work.peers).items()]
    comparisons, one, _ = interleave(ours, len(problems), peers, settings)

    worse, notes = {}, {}
    for peer in peers:
        solved = sorted(peer.answers)
        theirs = np.stack([peer.answers[k] for k in solved])
        mine = one[solved]
        # Norms are minimised: signs are reversed, so that a positive gap means that ours is worse.
        worse[peer.name] = _relative(-0.5 * (mine**2).sum(axis=1), -0.5 * (theirs**2).sum(axis=1))
        apart = float(np.abs(mine - theirs).max())
        notes[peer.name] = f"max |s - s'| = {apart:.1e}"
        if peer.name == "PyMaxflow" and not apart <= TOLERANCE * (
            1.0 + float(np.abs(theirs).max())
        ):
            outcome.failures.append(
                f"{work.name}: the points of ours and of {peer.name} are {apart:.3g} apart"
            )
    _rows(work, comparisons, worse, outcome, notes)


def run_logistic(work: Workload, settings: Settings, outcome: Outcome) -> None:
    """Time logistic marginals: noise, SAMPLES solves per image and the mean of the maximisers."""
    ls = importlib.import_module("logsuper")
    prepared = ls.prepare(work.functions())

    def ours(n_jobs: int) -> Any:
        return prepared.perturb(work.theta, work.alpha, SAMPLES, KEY, n_jobs=n_jobs).mean

    def contender(name: str, cls: type[Peer]) -> Contender:
        peer = cls(work.graph, 50.0)
        rng = np.random.default_rng(KEY)

        def marginals(theta: Floats) -> Floats:
            total = np.zeros(work.graph.n)
            for field in theta + rng.logistic(size=(SAMPLES, work.graph.n)):
                total += peer.solve(field)
            return total / SAMPLES

        return Contender(name, lambda ks: [marginals(work.theta[k]) for k in ks], len(work.theta))

    peers = [contender(name, cls) for name, cls in _installed(work.peers).items()]
    comparisons, _, _ = interleave(ours, len(work.theta), peers, settings)
    worse = {
        name: _perturbed_gaps(prepared, work, cls, outcome)
        for name, cls in _installed(work.peers).items()
    }
    _rows(work, comparisons, worse, outcome)


def _noise(n: int, outcome: Outcome) -> Floats:
    """Return the noise (SAMPLES, n) of problem 0; record a failure if kernel and numpy differ."""
    reference = importlib.import_module("logsuper.solvers._noise").logistic_noise
    expected = np.asarray(reference(KEY, np.arange(1), np.arange(SAMPLES), n)[0])
    try:
        draw = importlib.import_module("logsuper._kernels").draw_noise
    except ImportError:
        return expected
    drawn = np.empty((SAMPLES, n))
    for sample, row in enumerate(drawn):
        draw(KEY, 0, sample, row)
    apart = float(np.abs(drawn - expected).max())
    if not apart <= 1e-9:
        outcome.failures.append(
            f"logistic: the kernel's noise is not that of its reference, {apart:.3g} apart"
        )
    return drawn


def _perturbed_gaps(prepared: Any, work: Workload, cls: type[Peer], outcome: Outcome) -> Floats:
    """Let a peer solve the same samples as ours, under the same noise."""
    theta = work.theta[:1]
    drawn = prepared.perturb(theta, work.alpha, SAMPLES, KEY, return_samples=True, n_jobs=1)
    fields = theta[0] + _noise(work.graph.n, outcome)
    peer = cls(work.graph, float(np.abs(fields).max()))
    theirs = work.graph.energies(fields, np.stack([peer.solve(f) for f in fields]))
    ours = work.graph.energies(
        fields, np.asarray(drawn.samples, dtype=np.uint8).reshape(fields.shape)
    )
    values = np.asarray(drawn.values).reshape(-1)
    # The values that the kernel reports are compared too; the larger difference is used.
    gaps = np.stack([_relative(ours, theirs), np.abs(_relative(values, theirs))])
    worst: Floats = gaps[np.abs(gaps).argmax(axis=0), np.arange(gaps.shape[1])]
    return worst


def run_scaling(settings: Settings, outcome: Outcome) -> None:
    """Compare the time per pixel of a large grid and a small one, interleaved, on one thread."""
    ls = importlib.import_module("logsuper")
    small, large = 512, 2048 if settings.quick else 4096
    alpha = np.ones(2)
    calls: dict[int, Callable[[], Any]] = {}
    fields = {size: workloads.large_field(size) for size in (small, large)}
    for size, theta in fields.items():
        prepared = ls.prepare(list(ls.grid_cuts((size, size))))
        calls[size] = lambda p=prepared, t=theta: p.maximize(t, alpha, n_jobs=1)  # type: ignore[misc]
        calls[size]()
    seconds: dict[int, list[float]] = {small: [], large: []}
    for _ in range(min(settings.repeat, 7)):
        for size, call in calls.items():
            # Enough small solves for a measurable time; each is a call of its own.
            times = 8 if size == small else 1
            _, spent = timed(lambda c=call, n=times: [c() for _ in range(n)], settings.clock)  # type: ignore[misc]
            seconds[size].append(spent / times / size**2)
    for size in (small, large):
        nanoseconds = Spread.of(1e9 * s for s in seconds[size])
        note = f"quartiles {nanoseconds.low:.3g} to {nanoseconds.high:.3g}"
        outcome.limits.append(
            Limit(
                "scaling",
                f"time per pixel, {size}x{size}, a = 1",
                nanoseconds.median,
                "ns",
                None,
                note,
            )
        )
    ratio = Spread.of(b / a for a, b in zip(seconds[small], seconds[large], strict=True))
    outcome.limits.append(
        Limit(
            "scaling",
            f"time per pixel, {large}x{large} over {small}x{small}",
            ratio.median,
            "x",
            2.5,
            f"quartiles {ratio.low:.3g} to {ratio.high:.3g}",
        )
    )
    _compare_large(large, fields[large], calls[large]()[0], outcome)


def _compare_large(size: int, theta: Floats, y: Labels, outcome: Outcome) -> None:
    """Compare the energy of the large grid too, if PyMaxflow's graph fits into memory."""
    title = f"energy lost against PyMaxflow, {size}x{size}"
    spare = (
        os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0
    )
    if version("PyMaxflow") is None or spare < 500 * size * size:
        why = "not compared: no PyMaxflow, or too little memory for its graph"
        outcome.limits.append(Limit("scaling", title, None, "", None, why))
        return
    graph = workloads.grid_graph((size, size), workloads.OFFSETS_4, np.ones(2))
    theirs = graph.energies(theta, PEERS["PyMaxflow"](graph, 1.0).solve(theta[0])[None])
    gap = float(_relative(graph.energies(theta, np.asarray(y, dtype=np.uint8)), theirs)[0])
    outcome.limits.append(Limit("scaling", title, gap, "relative", TOLERANCE))
    if not gap <= TOLERANCE:
        outcome.failures.append(
            f"scaling: ours is worse than PyMaxflow by {gap:.3g} relative at {size}x{size}"
        )


def run_memory(settings: Settings, outcome: Outcome) -> None:
    """Measure in a new process the memory of one solve of a large grid besides input and output."""
    size = 2048 if settings.quick else 4096
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.memory", str(size)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        outcome.failures.append(
            f"memory: the measuring process failed: {done.stderr.strip()[-500:]}"
        )
        return
    found = json.loads(done.stdout)
    outcome.limits.append(
        Limit(
            "memory",
            f"memory beyond input and output, {size}x{size}",
            found["call"],
            "bytes per pixel",
            60.0,
            f"the prepared structure besides: {found['prepare']:.3g}; {found['method']}",
        )
    )


def _cut_entry(make: Callable[[bool], Workload]) -> Callable[[Settings, Outcome], None]:
    return lambda settings, outcome: run_cuts(make(settings.quick), settings, outcome)


def _lfield_entry(name: str, alpha: Floats) -> Callable[[Settings, Outcome], None]:
    def run(settings: Settings, outcome: Outcome) -> None:
        count = 2 if settings.quick else 8
        run_lfield(workloads.noisy_silhouettes(name, alpha, count), settings, outcome)

    return run


def _marginals_entry(name: str, method: str, alpha: Floats) -> Callable[[Settings, Outcome], None]:
    def run(settings: Settings, outcome: Outcome) -> None:
        work = workloads.noisy_silhouettes(name, alpha, 2 if settings.quick else 4)
        run_approximate(method, work, settings, outcome)

    return run


ENTRIES: dict[str, Callable[[Settings, Outcome], None]] = {
    **{name: _cut_entry(make) for name, make in workloads.CUTS.items()},
    "min-norm-50": lambda s, o: run_min_norm(workloads.min_norm(50, 4), s, o),
    "min-norm-512": lambda s, o: run_min_norm(workloads.min_norm(128 if s.quick else 512, 2), s, o),
    "logistic": lambda s, o: run_logistic(workloads.posteriors(20 if s.quick else 100), s, o),
    **{f"lfield-{key}": _lfield_entry(f"lfield-{key}", a) for key, a in ALPHAS.items()},
    **{
        f"{method}-{key}": _marginals_entry(f"{method}-{key}", method, a)
        for method in METHODS
        for key, a in ALPHAS.items()
    },
    "exact": lambda s, o: run_exact(workloads.noisy_blobs(4 if s.quick else 6, 4), s, o),
    "scaling": run_scaling,
    "memory": run_memory,
}


def select(patterns: list[str]) -> list[str]:
    """Return the entries that match a name, a prefix (`w1`) or a wildcard (`*-512`)."""
    if not patterns:
        return list(ENTRIES)
    for pattern in patterns:
        if not any(_matches(name, pattern) for name in ENTRIES):
            raise ValueError(f"no entry matches {pattern!r}; there are: {', '.join(ENTRIES)}")
    return [name for name in ENTRIES if any(_matches(name, pattern) for pattern in patterns)]


def _matches(name: str, pattern: str) -> bool:
    return name == pattern or name.startswith(f"{pattern}-") or fnmatch(name, pattern)
