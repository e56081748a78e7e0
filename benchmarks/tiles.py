"""Tiles against whole solves: `python -m benchmarks.tiles [WHAT ...]`, all of it by default.

speed: pixels per second at 4096x4096 from memory, against a whole solve on one thread.
slide: a 30000x30000 mask, written in pieces to zarr, cleaned with a limit of 2 GB of memory.
cluster: two worker processes of dask against one, beside two independent processes.
fit: learning from 2,000, 10,000 and 20,000 files, with its peak memory.
marginals: certified brackets of several stencils, how wide they are and what they cost.
hard: images whose tiles prove little, with a limit of 2 GB.
scale: what 10^6 images and 10^12 pixels would take, by arithmetic.

The exit code is 1 if a limit is missed; limits are those of the default sizes, for an idle machine
of two cores. All of it takes some minutes there.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import logsuper as ls
from benchmarks import second_worker
from benchmarks.memory import _peak
from benchmarks.tables import show, write_page
from benchmarks.tile_hard import measure_hard, measure_scale
from benchmarks.tile_masks import ODDS, LogOdds, blobs, measure_marginals, model
from logsuper.report import Table

TEXT = (
    "Masks are blobs with one pixel in ten flipped, cleaned with the 4-neighbour grid. Times are "
    "wall-clock times on two cores"
)


MISSED: list[str] = []
"""The limits that were missed, in words."""


def limit(holds: bool, text: str) -> None:
    """Note a limit that does not hold."""
    if not holds:
        MISSED.append(text)


def measure_speed(size: int, repeat: int) -> Table:
    """Compare tiles with whole solves, in turn."""
    theta = np.asarray(LogOdds(blobs(slice(0, size), slice(0, size)))[:, :])
    rows = []
    for strength in (0.5, 1.0, 2.0):
        f = model(theta.shape, strength)
        prepared = ls.prepare([f])
        times: dict[str, list[float]] = {"whole": [], "one": [], "two": []}
        for _ in range(repeat):
            start = time.perf_counter()
            y = prepared.maximize(theta.ravel(), [1.0]).y
            times["whole"].append(time.perf_counter() - start)
            for name, jobs in (("one", 1), ("two", 2)):
                start = time.perf_counter()
                found = ls.maximize_tiles(f, theta, n_jobs=jobs)
                times[name].append(time.perf_counter() - start)
                assert found.proven and np.array_equal(found.y.ravel(), y)
        ratios = {
            name: float(np.median(np.divide(times["whole"], times[name])))
            for name in ("one", "two")
        }
        for name, least in (("one", 0.4), ("two", 0.7)):
            limit(
                size < 4096 or ratios[name] >= least,
                f"weight {strength:g}, {name} thread(s): {ratios[name]:.2f} of the whole solve, "
                f"at least {least} wanted",
            )
        rate = {name: theta.size / np.median(each) / 1e6 for name, each in times.items()}
        rows.append(
            [
                f"{strength:g}",
                *(f"{rate[name]:.0f}" for name in ("whole", "one", "two")),
                f"{ratios['one']:.2f}",
                f"{ratios['two']:.2f}",
                f"{100 * found.reopened / theta.size:.3g} %",
            ]
        )
        del prepared
    head = ["weight", "whole", "tiles, 1 thread", "tiles, 2", "1 / whole", "2 / whole", "open"]
    return Table(f"Millions of pixels per second, {size}x{size}, from memory", head, rows)


def measure_slide(size: int, memory: float) -> Table:
    """Write a mask in pieces, clean it in a process of its own, and compare some windows."""
    import zarr

    chunk, piece = 512, 2048
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mask.zarr"
        mask = zarr.create_array(
            str(path), shape=(size, size), chunks=(chunk, chunk), dtype="uint8"
        )
        start = time.perf_counter()
        for r in range(0, size, piece):
            for c in range(0, size, piece):
                box = slice(r, min(size, r + piece)), slice(c, min(size, c + piece))
                mask[box] = blobs(*box)
        written = time.perf_counter() - start
        command = [sys.executable, "-m", "benchmarks.tiles", "--clean", folder, str(memory)]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found = json.loads(out.splitlines()[-1])
    limit(found["peak"] <= memory, f"slide: a peak of {found['peak'] / 1e9:.2f} GB")
    limit(found["proven"], "slide: not all pixels are proven")
    rows = [
        ["mask drawn and written in pieces", f"{written:.0f} s"],
        ["cleaned, with reading and writing", f"{found['seconds']:.0f} s"],
        ["  of it reading, two passes, on two threads", f"{found['reading']:.0f} s"],
        ["  of it writing", f"{found['writing']:.0f} s"],
        ["pixels per second", f"{size**2 / found['seconds'] / 1e6:.1f} million"],
        ["peak resident memory of the process", f"{found['peak'] / 1e9:.2f} GB"],
        ["tiles", str(found["tiles"])],
        ["pixels left open by their tile", str(found["reopened"])],
        ["all proven", str(found["proven"])],
        ["wrong pixels before, and after", f"{found['before']:.2f} %, {found['after']:.2f} %"],
    ]
    return Table(f"A mask of {size}x{size} with a limit of {memory / 1e9:g} GB", ["", ""], rows)


class _Timed:
    """A source or destination that adds up the time spent in it (by all threads)."""

    def __init__(self, array: Any) -> None:
        self.array, self.shape, self.ndim = array, tuple(array.shape), array.ndim
        self.chunks, self.seconds = array.chunks, 0.0

    def __getitem__(self, box: Any) -> Any:
        start = time.perf_counter()
        found = self.array[box]
        self.seconds += time.perf_counter() - start
        return found

    def __setitem__(self, box: Any, values: Any) -> None:
        start = time.perf_counter()
        self.array[box] = values
        self.seconds += time.perf_counter() - start


def clean(folder: Path, memory: float) -> None:
    """Clean a mask in a file, and print what it took."""
    import zarr

    mask = _Timed(zarr.open_array(str(folder / "mask.zarr"), mode="r"))
    out = _Timed(
        zarr.create_array(
            str(folder / "y.zarr"), shape=mask.shape, chunks=(512, 512), dtype="uint8"
        )
    )
    start = time.perf_counter()
    found = ls.maximize_tiles(
        model(mask.shape, 1.0), LogOdds(mask), memory_limit=memory, out=out, n_jobs=2
    )
    seconds = time.perf_counter() - start
    peak = _peak()
    box = slice(0, 2048), slice(0, 2048)
    r, c = (np.arange(2048, dtype=np.float32) for _ in range(2))
    truth = np.sin(r[:, None] / 37) * np.sin(c / 41) + 0.6 * np.sin(r[:, None] / 13 + 2) * np.sin(
        c / 17
    )
    wrong = [
        100 * float(np.mean(a.array[box] != (truth > 0.1)[: a.shape[0], : a.shape[1]]))
        for a in (mask, out)
    ]
    answer = {
        "seconds": seconds, "peak": peak, "tiles": found.tiles, "reopened": found.reopened,
        "proven": found.proven, "reading": mask.seconds, "writing": out.seconds,
        "before": wrong[0], "after": wrong[1],
    }  # fmt: skip
    print(json.dumps(answer))


def measure_cluster(size: int, chunk: int, repeat: int) -> Table:
    """Compare clusters of one and of two processes, and processes without a cluster."""

    def command(processes: int) -> list[str]:
        words = ["--alone", str(size // processes), str(size), str(chunk)]
        return [sys.executable, "-m", "benchmarks.tiles", *words]

    gains = second_worker.compare(
        lambda client: int(client.compute(total_of_lazy(size, chunk)).result()), command, repeat
    )
    same = len(set(gains.results)) == 1
    limit(same, "cluster: one and two workers differ")
    limit(
        size < 8192 or gains.ratio >= 0.85,
        f"cluster: {gains.ratio:.2f} of the gain by an independent process, at least 0.85 wanted",
    )
    rows = [[name, f"{t:.2f} s"] for name, t in gains.seconds.items()]
    rows += [
        ["gain by a second worker", f"{gains.workers:.2f}"],
        ["gain by a second independent process", f"{gains.processes:.2f}"],
        [
            f"ratio, median of {repeat} rounds (least, largest)",
            f"{gains.ratio:.2f} ({gains.least:.2f}, {gains.most:.2f})",
        ],
        ["2 workers that return memory at once, Dask's default", f"{gains.frugal:.2f} s"],
        ["same sum of labels", str(same)],
    ]
    return Table(f"A lazy mask of {size}x{size} in chunks of {chunk}", ["", ""], rows)


def total_of_lazy(height: int, chunk: int, width: int | None = None) -> Any:
    """Return the number of ones of a lazy mask that is drawn by the workers."""
    import dask.array as da

    shape = height, width or height
    mask = da.map_blocks(
        _draw,
        chunks=da.core.normalize_chunks(chunk, shape),
        dtype=np.float64,
        meta=np.empty((0, 0)),
    )
    return ls.maximize_tiles(model(shape, 1.0), mask).sum()


def _draw(block_info: Any = None) -> Any:
    box = [slice(*ends) for ends in block_info[None]["array-location"]]
    return ODDS * (2.0 * blobs(*box) - 1.0)


def alone(height: int, width: int, chunk: int) -> None:
    """Solve a lazy mask in this process, and print the seconds."""
    import dask

    with dask.config.set(scheduler="synchronous"):
        total_of_lazy(2 * chunk, chunk).compute()  # imports
        second_worker.work_when_told(lambda: total_of_lazy(height, chunk, width).compute())


def measure_fit(count: int, size: int) -> Table:
    """Learn from files, in a process of its own."""
    # of a fifth, all and twice as many files; kept up to the default limit, and up to 30 MB
    few, many = count // 5, 2 * count
    settings: list[tuple[str, int, float | None]] = [
        *(("windows", files, 3e7) for files in (few, count, many)),
        ("windows", count, None),
        *(("all", files, 3e7) for files in (few, many)),
        *(("MaskCRF", files, 3e7) for files in (few, many)),
    ]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for i in range(many):
            box = slice(size * (i // 100), size * (i // 100 + 1)), slice(size * i, size * (i + 1))
            np.save(Path(folder) / f"{i:06d}.npy", blobs(*box))
        for what, files, kept in settings:
            job = json.dumps([folder, what, files, kept])
            command = [sys.executable, "-m", "benchmarks.tiles", "--fit", job]
            out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found = json.loads(out.splitlines()[-1])
            peak = f"{found['peak'] / 1e6:.0f} MB"
            limit(found["peak"] < 1e9, f"fit on {files} files: a peak of {peak}, 1000 allowed")
            rows.append(
                [
                    str(files),
                    f"{files * size**2 / 1e6:.0f} MB",
                    what,
                    "256 MB" if kept is None else f"{kept / 1e6:.0f} MB",
                    f"{found['cpu']:.0f} s",
                    peak,
                    f"{found['noise']:.4f}" if found["noise"] else "",
                ]
            )
    head = [
        "files", "at a byte per pixel", "learns from", "kept in memory", "CPU time, with reading",
        "peak beyond the imported library", "share of flips, estimated (true 0.1)",
    ]  # fmt: skip
    return Table(f"Learning from files of {size}x{size}", head, rows)


class _Noisier(Sequence[Any]):
    """Pictures of masks in files: their values with noise, drawn when they are asked for."""

    memory_limit = 3e7

    def __init__(self, masks: Sequence[Any]) -> None:
        self.masks = masks

    def __len__(self) -> int:
        return len(self.masks)

    def __getitem__(self, i: Any) -> Any:
        noise = np.random.default_rng(i).normal(scale=0.5, size=self.masks[i].shape)
        return (self.masks[i] + noise).astype(np.float32)


def fit(folder: str, what: str, files: int, limit: float | None) -> None:
    """Learn from files of a folder, and print what it took.

    By the defaults, which look at windows of such images, or with a modular term per pixel, by 200
    steps, from all images; or a field behind boosted trees, which see the masks with more noise.
    """
    small = blobs(slice(0, 64), slice(0, 64))[None]
    ls.MaskDenoiser().fit(small).predict(small)  # imports and tables
    before = _peak()
    start = time.process_time()
    images = ls.io.ImageFiles(folder, memory_limit=limit)[:files]
    if what == "MaskCRF":
        ls.MaskCRF(unary="trees").fit(_Noisier(images), images)
        answer = {"cpu": time.process_time() - start, "peak": _peak() - before, "noise": None}
        print(json.dumps(answer))
        return
    all_of_them = {"learner": "moments", "modular": "pixel", "max_iter": 200}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ls.ConvergenceWarning)
        model = ls.MaskDenoiser(**(all_of_them if what == "all" else {})).fit(images)
    answer = {"cpu": time.process_time() - start, "peak": _peak() - before}
    print(json.dumps({**answer, "noise": float(model.noise_)}))


def draw_picture(path: Path) -> None:
    """Draw the tiles of an image, and which pixels each proves."""
    import matplotlib.pyplot as plt
    from matplotlib.patches import Rectangle

    shape, side, halo = (192, 256), 64, 8
    image = ls.make_silhouettes(1, shape=shape, seed=3)[0]
    noisy = ls.datasets.corrupt(image, ls.Flips(0.2), seed=0)
    theta = np.log(4.0) * (2.0 * noisy - 1.0)
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.5), layout="constrained")
    axes[0].imshow(noisy, cmap="gray_r")
    axes[0].set_title("a block, and its halo of 8 pixels")
    corner = 2 * side - 0.5, side - 0.5
    axes[0].add_patch(Rectangle(corner, side, side, fill=False, color="tab:blue", lw=2))
    wide = corner[0] - halo, corner[1] - halo
    axes[0].add_patch(
        Rectangle(wide, side + 2 * halo, side + 2 * halo, fill=False, color="tab:blue", ls="--")
    )
    for axis, strength in zip(axes[1:], (3.0, 8.0), strict=True):
        found = ls.maximize_tiles(model(shape, strength), theta, block=side, halo=halo, budget=0)
        shown = np.where(found.y[..., None] == 1, 90, 235).repeat(3, axis=2).astype(np.uint8)
        shown.reshape(-1, 3)[found.open] = (230, 110, 20)
        axis.imshow(shown)
        share = 100 * len(found.open) / theta.size
        axis.set_title(f"weight {strength:g}: {share:.2g} % open (orange)")
    for axis in axes:
        for row in range(side, shape[0], side):
            axis.axhline(row - 0.5, color="tab:blue", lw=0.6)
        for column in range(side, shape[1], side):
            axis.axvline(column - 0.5, color="tab:blue", lw=0.6)
        axis.set_axis_off()
    figure.savefig(path, dpi=100)


def main(arguments: list[str] | None = None) -> int:
    """Run the measurements that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parts = ("speed", "slide", "hard", "cluster", "scale", "marginals", "fit")
    parser.add_argument("what", nargs="*", help=f"{', '.join(parts)}; all by default")
    parser.add_argument("--size", type=int, default=30000, help="side of the slide")
    parser.add_argument("--speed-size", type=int, default=4096)
    parser.add_argument("--cluster-size", type=int, default=16384)
    parser.add_argument("--marginals-size", type=int, default=96)
    parser.add_argument("--limit", type=float, default=2e9, help="bytes of memory")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--out", type=Path, help="a page of documentation to write")
    parser.add_argument("--images", type=int, default=10000, help="files to learn from")
    parser.add_argument("--picture", type=Path, help="draw tiles to this file, and stop")
    parser.add_argument("--fit", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--clean", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--alone", nargs=3, type=int, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.clean:
        clean(Path(given.clean[0]), float(given.clean[1]))
        return 0
    if given.picture:
        draw_picture(given.picture)
        return 0
    if given.fit:
        fit(*given.fit)
        return 0
    if given.alone:
        alone(*given.alone)
        return 0
    if unknown := set(given.what) - set(parts):
        parser.error(f"{', '.join(sorted(unknown))}: not one of {', '.join(parts)}")
    MISSED.clear()
    measure: dict[str, Callable[[], Table]] = {
        "speed": lambda: measure_speed(given.speed_size, given.repeat),
        "slide": lambda: measure_slide(given.size, given.limit),
        "hard": lambda: measure_hard(given.speed_size, given.limit, limit),
        "cluster": lambda: measure_cluster(given.cluster_size, 2048, given.repeat),
        "scale": lambda: measure_scale(given.speed_size),
        "marginals": lambda: measure_marginals(given.marginals_size),
        "fit": lambda: measure_fit(given.images, 128),
    }
    tables = []
    for part in parts:
        if part in (given.what or parts):
            tables.append(measure[part]())
            show(tables[-1:])
    for text in MISSED:
        print(f"MISSED: {text}")
    if given.out:
        words = sys.argv[1:] if arguments is None else arguments
        text = f"{TEXT}; the load average at the end was {os.getloadavg()[0]:.1f}. "
        text += f"Limits missed: {'; '.join(MISSED) or 'none'}."
        write_page(given.out, "Tiles, measured", "benchmarks.tiles", words, text, tables)
    return int(bool(MISSED))


if __name__ == "__main__":
    sys.exit(main())
