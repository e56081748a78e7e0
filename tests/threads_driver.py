"""Several Python threads on one structure at once, compared with one thread: for ThreadSanitizer.

Run as ``python -m tests.threads_driver``; exit code 1 if a result depends on the company it is in.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import logsuper as ls
from logsuper.solvers._native import kernels

THREADS = 4
ROUNDS = 3


def jobs() -> dict[str, Callable[[], Any]]:
    """Return what the threads do: each job shares one prepared structure, or one kernel object."""
    rng = np.random.default_rng(0)
    grid, graph = ls.prepare(ls.grid_cuts((30, 70))), ls.prepare([_any_graph(rng, 300, 900)])
    dense = ls.prepare([_any_graph(rng, 60, 1500)])
    image = ls.LogSupermodular(
        0.4 * ls.grid_cuts((12, 14))[0]
        + 0.4 * ls.grid_cuts((12, 14))[1]
        - ls.Modular(0.3 * rng.normal(size=168))
    )
    theta = rng.normal(size=(6, 2100))
    native = kernels()
    assert native is not None
    scan = native.grid_scan(np.full((20, 29), 0.2), np.full((19, 30), 0.2))
    numbers = np.arange(4, dtype=np.uint64)

    def sweep() -> Any:
        states = np.zeros((4, 2, 600), np.uint8)
        states[:, 1] = 1
        scan.run(states, np.zeros((1, 600)), 1.0, 7, numbers, 0, 20, 1, 2)
        return states

    def perturb() -> Any:
        out = grid.perturb(theta, [0.5, 0.7], 20, seed=1, n_jobs=2, return_samples=True)
        return out.mean, out.values, out.samples

    return {
        "grid": lambda: grid.maximize(theta, [1.0, 0.8], n_jobs=2),
        "grid, 64 bits": lambda: grid.maximize(theta, [1.0, 0.8], n_jobs=2, tie="max"),
        "sparse": lambda: graph.maximize(theta[:, :300], [1.0], n_jobs=2),
        "dense": lambda: dense.maximize(theta[:, :60], [1.0], n_jobs=2),
        "perturb": perturb,
        "min-norm": lambda: ls.min_norm_point(grid.functions[0], theta, n_jobs=2).s,
        "chains": sweep,
        "strips": lambda: image.log_partition("strips", window=6, n_jobs=2).interval,
        "samples": lambda: image.sample(8, "swendsen_wang", seed=1, n_jobs=2, burn_in=20),
        "refused": lambda: _refused(lambda: grid.maximize(theta * np.nan, [1.0, 0.8], n_jobs=2)),
    }


def _any_graph(rng: np.random.Generator, n: int, count: int) -> ls.Cut:
    pairs = np.stack(np.triu_indices(n, 1), axis=1)
    edges = pairs[rng.permutation(len(pairs))[:count]]
    return ls.Cut(n, edges, rng.random(count))


def _refused(call: Callable[[], Any]) -> bool:
    try:
        call()
    except ValueError:
        return True
    return False


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, tuple):
        return all(map(_same, a, b))
    return bool(np.array_equal(a, b))


def main() -> int:
    """Run every job on all threads at once, and all jobs together; compare with one thread."""
    work = jobs()
    alone = {name: job() for name, job in work.items()}
    wrong: list[str] = []

    def repeat(names: list[str]) -> None:
        for _ in range(ROUNDS):
            wrong.extend(name for name in names if not _same(work[name](), alone[name]))

    for names in [*([name] for name in work), list(work)]:
        team = [threading.Thread(target=repeat, args=(names,)) for _ in range(THREADS)]
        for thread in team:
            thread.start()
        for thread in team:
            thread.join()
    made = (len(work) + len(work)) * THREADS * ROUNDS
    print(f"{made} calls from {THREADS} Python threads, {len(wrong)} of them wrong {wrong[:5]}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
