"""Kill processes at random moments of their work: ``python -m tests.kill --times 100``.

Five kinds of work are killed (SIGKILL): a fit with a checkpoint, ``logsuper reproduce``, the saving
of a model, ``logsuper denoise``, which learns first, and ``logsuper apply``, which does not;
``--only`` takes one of them. Each is then run to its end, and must give what it gives undisturbed,
with the same files in its folder and no others. Exit code 1 if anything differs.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import functools
import importlib
import multiprocessing
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import logsuper as ls
from logsuper import learning
from logsuper.cli import _cleaning
from logsuper.cli import main as command_line
from logsuper.experiments import figure1
from logsuper.io import read_image, write_image

# Of one kill in so many the process is started anew and killed once more.
_AGAIN = 3
_TIMEOUT = 300.0


@dataclasses.dataclass(frozen=True)
class Work:
    """Something that can be interrupted.

    Attributes
    ----------
    run : callable
        Is given a folder; does the work, or what is left of it.
    state : callable
        Is given a folder; returns what must be the same in the end.
    whole : callable
        Is given a folder after a kill; returns what is corrupt, or None.
    """

    run: Callable[[Path], None]
    state: Callable[[Path], Any]
    whole: Callable[[Path], str | None]


# --------------------------------------------------------------------------- a fit with checkpoint


@functools.cache
def _problem() -> tuple[learning.Examples, learning.Penalty]:
    clean = ls.make_silhouettes(12, shape=(16, 16), seed=0)
    noisy = ls.Flips(0.1).sample(clean, seed=1)
    cuts = ls.grid_cuts((16, 16))
    data = learning.make_examples(cuts, labels=clean, observed=noisy, channel=ls.Flips(0.1))
    return data, learning.Penalty.of(data.layout, alpha=0.1, modular=0.3)


def _fit(folder: Path) -> None:
    fit = learning.logistic(
        *_problem(), max_iter=60, n_samples=2, tol=0.0, checkpoint=folder / "fit.npz"
    )
    np.save(folder / "theta.npy", fit.theta)


def _fitted(folder: Path) -> Any:
    return np.load(folder / "theta.npy").tolist()


def _fit_whole(folder: Path) -> str | None:
    """A checkpoint that is there is one that the next run reads, which raises otherwise."""
    return None


# ---------------------------------------------------------------------------------- the experiments


def _reproduce(folder: Path) -> None:
    line = ["reproduce", "figure1", "--quick", "--jobs", "1", "--out", str(folder)]
    with open(os.devnull, "w") as null:
        sys.stdout = sys.stderr = null
        command_line(line, standalone_mode=False)


def _reproduced(folder: Path) -> Any:
    """Return all pictures, and all tables without how long things took."""
    pictures = {path.name: path.read_bytes() for path in folder.glob("*.png")}
    tables = {path.name: _timeless(path) for path in folder.glob("*.csv")}
    return pictures | tables


def _timeless(path: Path) -> list[list[str]]:
    with open(path, newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    kept = [k for k, name in enumerate(head) if name not in ("seconds", "milliseconds")]
    return [[row[k] for k in kept] for row in (head, *rows) if row]


def _make_small() -> None:
    few = functools.partial(figure1.compute, points=4, n_samples=20)
    figure1.compute, figure1.QUICK_COUNTS = few, (1, 2)  # type: ignore[assignment]
    _cleaning._BATCH = 1000  # a few files at a time
    importlib.import_module("matplotlib.figure")
    importlib.import_module("matplotlib.backends.backend_agg")


# ------------------------------------------------------------------------------------ saved models


@functools.cache
def _models() -> tuple[ls.LogSupermodularDensity, ...]:
    """Return two models of different size; writing one over the other takes many blocks."""
    rng = np.random.default_rng(0)
    found = []
    for n in (4, 9):
        X = rng.integers(0, 2, (8, n))
        model = ls.LogSupermodularDensity(max_iter=2).fit(X)
        # ballast, so that a file is not written in one moment
        model.history_ = model.history_ * 200
        found.append(model)
    return tuple(found)


def _save(folder: Path) -> None:
    for k in range(12):
        _models()[k % 2].save(folder / "model.npz")


def _saved(folder: Path) -> Any:
    model = ls.load_model(folder / "model.npz")
    return model.n_features_in_, model.parameters_.modular.tolist()


def _save_whole(folder: Path) -> str | None:
    if not (folder / "model.npz").exists():
        return None
    model = ls.load_model(folder / "model.npz")
    for one in _models():
        same = one.n_features_in_ == model.n_features_in_
        if same and np.array_equal(one.parameters_.modular, model.parameters_.modular):
            return None
    return "a model that is neither the old nor the new one"


# ----------------------------------------------------------------------------------------- denoise


@functools.cache
def _masks() -> tempfile.TemporaryDirectory[str]:
    """Return a folder of noisy masks and a model, which is removed at the end."""
    folder = tempfile.TemporaryDirectory()
    clean = ls.make_silhouettes(30, (20, 20), seed=0)
    noisy = ls.Flips(0.1).sample(clean, seed=1)
    for k, mask in enumerate(noisy):
        write_image(Path(folder.name) / f"{k:02}.png", (255 * mask).astype(np.uint8))
    ls.MaskDenoiser(0.1, max_iter=20).fit(noisy, clean).save(Path(folder.name) / "model.npz")
    return folder


def _denoise(folder: Path) -> None:
    _clean(["denoise", _masks().name], folder)


def _apply(folder: Path) -> None:
    _clean(["apply", "--model", f"{_masks().name}/model.npz", _masks().name], folder)


def _clean(line: list[str], folder: Path) -> None:
    options = ["--out", str(folder), "--jobs", "1", "--probabilities", "--compare"]
    with open(os.devnull, "w") as null:
        sys.stdout = sys.stderr = null
        code = command_line([*line, *options], standalone_mode=False)
    if code:
        raise SystemExit(code)


def _cleaned(folder: Path) -> Any:
    """Return all files; of a learned model its weights, for its file has the time in it."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".npz")
    models = folder.glob(".logsuper/*.npz")
    weights = [ls.load_model(model).alpha_.tolist() for model in models]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}, weights


def _cleaned_whole(folder: Path) -> str | None:
    """Every image that is there can be read."""
    for path in folder.rglob("*.png"):
        if read_image(path, color=True).size == 0:
            return f"{path.name} is not whole"
    return None


WORKS = {
    "checkpointed fit": Work(_fit, _fitted, _fit_whole),
    "reproduce": Work(_reproduce, _reproduced, lambda folder: None),
    "saving": Work(_save, _saved, _save_whole),
    "denoise": Work(_denoise, _cleaned, _cleaned_whole),
    "apply": Work(_apply, _cleaned, _cleaned_whole),
}


# ------------------------------------------------------------------------------------------ killing


def kill_often(times: int, seed: int, only: str = "") -> tuple[dict[str, Counter[str]], list[str]]:
    """Kill each kind of work in turn; return counts by kind, and what went wrong."""
    rng = np.random.default_rng(seed)
    works = {name: work for name, work in WORKS.items() if only in ("", name)}
    counts: dict[str, Counter[str]] = {name: Counter() for name in works}
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as root:
        truth = {name: _undisturbed(work, Path(root) / name) for name, work in works.items()}
        number = 0
        while sum(count["kills"] for count in counts.values()) < times:
            name = list(works)[number % len(works)]
            folder = Path(root) / f"{number}"
            number += 1
            complaint = _disturb(works[name], folder, truth[name], rng, counts[name])
            if complaint is not None:
                counts[name]["wrong"] += 1
                wrong.append(f"{name}, seed {seed}, number {number - 1}: {complaint}")
    return counts, wrong


@dataclasses.dataclass(frozen=True)
class _Truth:
    state: Any
    files: list[str]
    seconds: float


def _undisturbed(work: Work, folder: Path) -> _Truth:
    """Return what the work gives, the files it leaves, and how long it takes."""
    folder.mkdir()
    start = time.monotonic()
    _finish(work, folder)
    return _Truth(work.state(folder), _listed(folder), time.monotonic() - start)


def _disturb(
    work: Work, folder: Path, truth: _Truth, rng: np.random.Generator, counts: Counter[str]
) -> str | None:
    """Kill the work once or more, let it end, and return what is not as it should be."""
    folder.mkdir()
    while True:
        process = _start(work, folder)
        process.join(rng.uniform(0.0, truth.seconds))
        if process.exitcode is None:
            process.kill()
            process.join()
            counts["kills"] += 1
            counts["left unfinished"] += bool(set(_listed(folder)) - set(truth.files))
        else:
            counts["too late"] += 1
            if process.exitcode:
                return f"failed with exit code {process.exitcode}"
        complaint = work.whole(folder)
        if complaint is not None:
            return complaint
        if rng.integers(_AGAIN):
            break
    _finish(work, folder)
    counts["ended"] += 1
    if work.state(folder) != truth.state:
        return "another result than undisturbed"
    files = _listed(folder)
    more = sorted(set(files) - set(truth.files))
    return f"left behind: {', '.join(more)}" if more else None


def _start(work: Work, folder: Path) -> Any:
    # a fork has everything imported, so that a kill hits the work and not the imports
    process = multiprocessing.get_context("fork").Process(target=work.run, args=(folder,))
    process.start()
    return process


def _finish(work: Work, folder: Path) -> None:
    process = _start(work, folder)
    process.join(_TIMEOUT)
    if process.exitcode != 0:
        process.kill()
        raise SystemExit(f"{work.run.__name__} ended with exit code {process.exitcode}")


def _listed(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def main(arguments: list[str] | None = None) -> int:
    """Kill, print counts, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.kill", description=__doc__)
    parser.add_argument("--times", type=int, default=100, help="kills in all; default 100")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=list(WORKS), default="", help="one kind of work")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore", ls.ConvergenceWarning)
    _make_small()
    _problem(), _models(), _masks()
    start = time.monotonic()
    counts, wrong = kill_often(given.times, given.seed, given.only)
    names = ("kills", "too late", "left unfinished", "ended", "wrong")
    print(f"{'work':<18}" + "".join(f"{name:>17}" for name in names))
    for work, count in counts.items():
        print(f"{work:<18}" + "".join(f"{count[name]:>17}" for name in names))
    total = sum(count["kills"] for count in counts.values())
    print(f"{total} kills in {time.monotonic() - start:.0f} s, {len(wrong)} failures")
    for line in wrong:
        print(f"FAILED: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
