"""A second worker process: `python -m benchmarks.machines [--out docs/machines.md]`.

For fits by passes over all images, and for probabilities of many images: how much faster two worker
processes of a `dask.distributed` cluster are than this process alone, beside how much faster two
independent processes are, each of which does half of the work.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np

import logsuper as ls
from benchmarks.tables import show, write_page
from logsuper.report import Table

TEXT = (
    "Silhouettes with one pixel in ten flipped. Times are the fastest of several runs, wall clock, "
    "on two cores. Gains are relative to one process; each of two independent processes has half "
    "of the images"
)
JOBS = {
    "exact": "fit, exact likelihood, 5 iterations, 50x50",
    "max_margin": "fit, max margin, 10 rounds, 50x50",
    "proba": "predict_proba, 128x128",
}
SMALL, LARGE = (50, 50), (128, 128)


def prepare(job: str, count: int) -> Any:
    """Return what runs a job on so many images, and gives its result as an array."""
    shape = LARGE if job == "proba" else SMALL
    clean = ls.make_silhouettes(count, shape=shape, seed=0)
    noisy = ls.Flips(0.1).sample(clean, seed=1)
    if job == "proba":
        model = ls.MaskDenoiser(0.1, modular="shared").fit(noisy[:20], clean[:20])
        return lambda: model.predict_proba(noisy)
    options: dict[str, Any] = {"modular": "shared", "max_iter": 10}
    if job == "exact":
        options |= {"max_iter": 5, "options": {"window": 6}}
    return lambda: ls.MaskDenoiser(0.1, job, **options).fit(noisy, clean).alpha_


def time_best(run: Any, repeat: int) -> tuple[float, Any]:
    """Return the shortest time, and the result."""
    times = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ls.ConvergenceWarning)
        for _ in range(repeat):
            start = time.perf_counter()
            found = run()
            times.append(time.perf_counter() - start)
    return min(times), found


def alone(job: str, count: int, repeat: int) -> None:
    """Run a job in this process, beside others, and print the seconds."""
    print(time_best(prepare(job, count), repeat)[0])


def measure(job: str, count: int, repeat: int) -> list[str]:
    """Return a row of the table."""
    import distributed

    run = prepare(job, count)
    one, right = time_best(run, repeat)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        time_best(run, 1)  # imports
        two, found = time_best(run, repeat)
    seconds = []
    for processes in (1, 2):
        words = ["--alone", job, str(count // processes), str(repeat)]
        command = [sys.executable, "-m", "benchmarks.machines", *words]
        running = [
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)
        ]
        seconds.append(max(float(p.communicate()[0].splitlines()[-1]) for p in running))
    gain, free = one / two, seconds[0] / seconds[1]
    times = [f"{value:.2f} s" for value in (one, two)]
    same = str(bool(np.array_equal(right, found)))
    return [JOBS[job], str(count), *times, f"{gain:.2f}", f"{free:.2f}", f"{gain / free:.2f}", same]


def main(arguments: list[str] | None = None) -> int:
    """Measure all jobs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--jobs", nargs="*", choices=list(JOBS), default=list(JOBS))
    parser.add_argument("--out", type=Path, help="a page of documentation to write")
    parser.add_argument("--alone", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.alone:
        alone(given.alone[0], int(given.alone[1]), int(given.alone[2]))
        return 0
    head = [
        "job", "images", "one process", "two workers", "gain", "gain of two processes", "ratio",
        "same bits",
    ]  # fmt: skip
    table = Table(
        "A second worker", head, [measure(j, given.images, given.repeat) for j in given.jobs]
    )
    show([table])
    if given.out:
        words = sys.argv[1:] if arguments is None else arguments
        text = f"{TEXT}; the load average at the end was {os.getloadavg()[0]:.1f}."
        write_page(given.out, "Machines, measured", "benchmarks.machines", words, text, [table])
    return 0


if __name__ == "__main__":
    sys.exit(main())
