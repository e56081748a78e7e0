"""A second worker process: `python -m benchmarks.machines [--out docs/machines.md]`.

For fits by passes over all images, and for probabilities of many images: how much faster two worker
processes of a `dask.distributed` cluster are than one, beside how much faster two independent
processes are, each of which does half of the work.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np

import logsuper as ls
from benchmarks import second_worker
from benchmarks.tables import show, write_page
from logsuper.report import Table

TEXT = (
    "Silhouettes with one pixel in ten flipped. Times are medians of several rounds, wall clock, "
    "on two cores; each of two independent processes has half of the images"
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


def quietly(run: Any) -> Any:
    """Run without warnings of fits that stop early on purpose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ls.ConvergenceWarning)
        return run()


def alone(job: str, count: int) -> None:
    """Run a job in this process, beside others."""
    run = prepare(job, count)
    second_worker.work_when_told(lambda: quietly(run))


def measure(job: str, count: int, repeat: int) -> list[str]:
    """Return a row of the table."""
    run = prepare(job, count)

    def on_cluster(client: Any) -> Any:
        with client.as_current(), joblib.parallel_config(backend="dask"):
            return quietly(run)

    def command(processes: int) -> list[str]:
        words = ["--alone", job, str(count // processes)]
        return [sys.executable, "-m", "benchmarks.machines", *words]

    gains = second_worker.compare(on_cluster, command, repeat)
    right = quietly(run)
    same = all(np.array_equal(right, found) for found in gains.results)
    return [
        *(JOBS[job], str(count), *(f"{value:.2f} s" for value in gains.seconds.values())),
        *(f"{gains.workers:.2f}", f"{gains.processes:.2f}"),
        *(f"{gains.ratio:.2f} ({gains.least:.2f}, {gains.most:.2f})", str(same)),
    ]


def main(arguments: list[str] | None = None) -> int:
    """Measure all jobs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--jobs", nargs="*", choices=list(JOBS), default=list(JOBS))
    parser.add_argument("--out", type=Path, help="a page of documentation to write")
    parser.add_argument("--alone", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.alone:
        alone(given.alone[0], int(given.alone[1]))
        return 0
    head = [
        "job", "images", "1 worker", "2 workers", "1 process", "2 processes",
        "gain of a second worker", "of a second process", "ratio (least, largest)",
        "same bits as without a cluster",
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
