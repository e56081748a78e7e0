"""Images whose tiles prove little, and what larger jobs would take; printed by `benchmarks.tiles`.

`python -m benchmarks.tile_hard KIND SIZE WEIGHT MEMORY` solves one such image, by tiles and as a
whole, and prints what it took.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import logsuper as ls
from benchmarks.memory import _peak
from benchmarks.tile_masks import LogOdds, blobs, model
from logsuper.report import Table

KINDS = {
    "a square without data": 2.0,
    "a square without data, strong coupling": 10.0,
    "white noise": 0.6,
    "strong coupling": 10.0,
    "no fields": 1.0,
}
"""Weights of the edges of each kind of image."""


def fields(kind: str, size: int) -> Any:
    """Return the fields of a kind of image."""
    if kind.startswith("a square"):
        theta = np.asarray(LogOdds(blobs(slice(0, size), slice(0, size)))[:, :])
        theta[size // 4 : 3 * size // 4, size // 4 : 3 * size // 4] = 0.0
        return theta
    if kind == "no fields":
        return np.zeros((size, size))
    rng = np.random.default_rng(0)
    return rng.normal(scale=0.1 if kind == "strong coupling" else 1.0, size=(size, size))


def solve(kind: str, size: int, weight: float, memory: float) -> None:
    """Solve one image by tiles, then as a whole, and print seconds and peaks."""
    theta = fields(kind, size)
    f = model(theta.shape, weight)
    small = model((64, 64), weight)
    ls.maximize_tiles(small, theta[:64, :64], block=32)  # imports
    before = _peak()
    start = time.perf_counter()
    found = ls.maximize_tiles(f, theta, memory_limit=memory)
    answer: dict[str, Any] = {"tiles": time.perf_counter() - start, "peak": _peak() - before}
    start = time.perf_counter()
    y = ls.maximize(f, theta.ravel()).y
    answer["whole"] = time.perf_counter() - start
    answer["same"] = bool(found.proven and (y == found.y.ravel()).all())
    answer["open"], answer["solved"] = found.reopened / theta.size, found.solved / theta.size
    print(json.dumps(answer))


def measure_hard(size: int, memory: float, limit: Callable[[bool, str], None]) -> Table:
    """Solve all kinds, each in a process of its own, on one thread."""
    rows = []
    for kind, weight in KINDS.items():
        words = [kind, str(size), str(weight), str(memory)]
        command = [sys.executable, "-m", "benchmarks.tile_hard", *words]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found = json.loads(out.splitlines()[-1])
        limit(found["same"], f"{kind}: tiles differ from the whole")
        limit(found["peak"] <= memory, f"{kind}: a peak of {found['peak'] / 1e9:.2f} GB")
        rows.append(
            [
                kind,
                f"{weight:g}",
                f"{100 * found['open']:.0f} %",
                f"{found['solved']:.2f}",
                f"{found['tiles']:.1f} s",
                f"{found['whole']:.1f} s",
                f"{found['peak'] / 1e9:.2f} GB",
                str(found["same"]),
            ]
        )
    head = [
        "image", "weight", "open after the first round", "pixels solved, per pixel", "tiles",
        "whole solve", "peak of tiles, beside the fields", "same bits",
    ]  # fmt: skip
    title = f"Tiles that prove little: {size}x{size}, a limit of {memory / 1e9:g} GB, one thread"
    return Table(title, head, rows)


def tasks_per_chunk() -> float:
    """Return how many tasks dask has per chunk, for an image of 16x16 chunks."""
    import dask
    import dask.array as da

    lazy = da.zeros((512, 512), chunks=32)
    y = ls.maximize_tiles(model(lazy.shape, 1.0), lazy)
    [found] = dask.optimize(y)
    return len(dict(found.__dask_graph__())) / 256


def measure_scale(size: int) -> Table:
    """Measure one thread on this machine, and multiply: what larger jobs would take."""
    theta = np.asarray(LogOdds(blobs(slice(0, size), slice(0, size)))[:, :])
    f = model(theta.shape, 1.0)
    rates = {"tiles": theta.size / _seconds(lambda: ls.maximize_tiles(f, theta))}
    side, halo, task, batch = 2048, 8, 1e-3, 64
    part = min(512, size)
    images = (theta[:part, :part] > 0).astype(np.uint8)[None].repeat(8, axis=0)
    for decode in ("map", "mean"):
        options = {"modular": "shared", "context": 1, "decode": decode, "n_jobs": 1}
        fitted = ls.MaskDenoiser(0.1, **options).fit(images[:, :128, :128])
        rates[decode] = images.size / _seconds(lambda own=fitted: own.predict(images))
    each = tasks_per_chunk()
    rows = []
    for name, pixels, rate, tasks in (
        ("10^6 images of 512x512, most probable masks", 1e6 * 512**2, rates["map"], 1e6 / batch),
        ("the same, by probabilities", 1e6 * 512**2, rates["mean"], 1e6 / batch),
        ("most probable mask of 10^12 pixels", 1e12, rates["tiles"], each * 1e12 / side**2),
    ):
        whole = rate == rates["tiles"]
        read = 2 * (1 + 2 * (halo + 1) / side) ** 2 if whole else 1.0
        work, moved = pixels / rate, pixels * (read + 1.0)
        rows.append(
            [
                name,
                f"{rate / 1e6:.3g}",
                f"{pixels * read / 1e9:.0f} GB, {pixels / 1e9:.0f} GB",
                f"{work:.2g} s",
                f"{work / 100:.2g} s",
                f"{tasks:.2g}",
                f"{tasks * task:.2g} s",
                f"{work / (tasks * task):.2g}",
                f"{work / (moved / 1e9):.2g}",
                f"{pixels / side**2 * 4 * side / 1e9:.2g} GB" if whole else "0",
            ]
        )
    head = [
        "job", "million pixels per second, one thread", "read, written (1 byte per pixel)",
        "computing, 1 core", "100 cores", "tasks", "scheduler at 1 ms per task",
        "cores that it feeds", "cores that 1 GB/s feeds", "faces of chunks in one task",
    ]  # fmt: skip
    title = (
        f"Larger jobs, by arithmetic from this machine ({batch} images per task; chunks of {side}, "
        f"{each:.1f} tasks per chunk)"
    )
    return Table(title, head, rows)


def _seconds(run: Callable[[], object]) -> float:
    """Return the seconds of the second call."""
    run()
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


if __name__ == "__main__":
    solve(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]))
