"""A second worker process: `python -m benchmarks.machines [--out docs/machines.md]`.

The exit code is 1 if the gain of a second worker is below .85 of that of a second process.

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
    "on two cores; each of two independent processes has half of the images. Workers keep freed "
    "memory; in the column of Dask's default they return it to the system at once. One worker is "
    "not used: the calling process does the work. Images of an array in memory, and what is made "
    "of them, pass through that process, which is most of the time where a mask takes "
    "milliseconds, as in the last row: give files there"
)
JOBS = {
    "exact": ("fit, exact likelihood, 2 iterations, 50x50", 320),
    "saa": ("fit, logistic with fixed noise, 3 iterations, 50x50", 8000),
    "proba": ("predict_proba, 128x128", 1000),
    "map": ("predict, the most probable mask, 512x512", 800),
}
"""What is done, and the number of images."""
SHAPES = {"exact": (50, 50), "saa": (50, 50), "proba": (128, 128), "map": (512, 512)}


def prepare(job: str, count: int) -> Any:
    """Return what runs a job on so many images, and gives its result as an array."""
    shape = SHAPES[job]
    clean = ls.make_silhouettes(min(count, 200), shape=shape, seed=0)
    clean = np.concatenate([clean] * -(-count // len(clean)))[:count]
    noisy = ls.Flips(0.1).sample(clean, seed=1).astype(np.uint8)
    if job in ("proba", "map"):
        decode = "map" if job == "map" else "mean"
        model = ls.MaskDenoiser(0.1, modular="shared", decode=decode).fit(noisy[:20], clean[:20])
        return lambda: (model.predict if job == "map" else model.predict_proba)(noisy)
    options = {"window": 4} if job == "exact" else {}
    most = 2 if job == "exact" else 3
    settings = {"modular": "shared", "max_iter": most, "options": options}
    return lambda: ls.MaskDenoiser(0.1, job, **settings).fit(noisy, clean).alpha_


def quietly(run: Any) -> Any:
    """Run without warnings of fits that stop early on purpose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ls.ConvergenceWarning)
        return run()


def alone(job: str, count: int) -> None:
    """Run a job in this process, beside others."""
    run = prepare(job, count)
    second_worker.work_when_told(lambda: quietly(run))


LEAST = 0.85
"""Of the gain of a second process, what a second worker shall gain."""


def measure(job: str, count: int, repeat: int) -> tuple[list[str], bool]:
    """Return a row of the table, and whether the gain is as large as wanted."""
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
    row = [
        *(JOBS[job][0], str(count), *(f"{value:.2f} s" for value in gains.seconds.values())),
        *(f"{gains.workers:.2f}", f"{gains.processes:.2f}"),
        f"{gains.ratio:.2f} ({gains.least:.2f}, {gains.most:.2f})",
        *(f"{gains.frugal:.2f} s", str(same)),
    ]
    return row, same and gains.ratio >= LEAST


def main(arguments: list[str] | None = None) -> int:
    """Measure all jobs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of images")
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
        "2 workers, Dask's default",
        "same bits as without a cluster",
    ]  # fmt: skip
    counts = {job: max(4, int(given.scale * JOBS[job][1])) for job in given.jobs}
    found = [measure(job, count, given.repeat) for job, count in counts.items()]
    missed = [row[0] for row, enough in found if not enough]
    table = Table("A second worker", head, [row for row, _ in found])
    show([table])
    if missed:
        print(f"MISSED, {LEAST} of a second process and the same bits: {'; '.join(missed)}")
    if given.out:
        words = sys.argv[1:] if arguments is None else arguments
        text = f"{TEXT}; the load average at the end was {os.getloadavg()[0]:.1f}. "
        text += f"Below {LEAST} of the gain of a second process: {'; '.join(missed) or 'none'}."
        write_page(given.out, "Machines, measured", "benchmarks.machines", words, text, [table])
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
