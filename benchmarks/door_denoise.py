"""`logsuper denoise` run as a process on folders of noisy masks, for `benchmarks.doors`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import logsuper as ls
from benchmarks.doors import Section
from benchmarks.shapes import blobs
from logsuper.io import read_image, write_image
from logsuper.report import Table

RATE = 0.1
TEXT = (
    "Masks were written to a folder with one pixel in ten flipped, and `logsuper denoise FOLDER "
    "--out OUT` was run as a process of its own: it saw no clean mask, and was not told how many "
    "pixels were flipped. Expected is the share of wrong pixels that the command itself states. "
    "Seconds are of CPU time, of all threads and with the start of Python; memory is the largest "
    "resident size of the process."
)

Masks = dict[str, NDArray[np.uint8]]


@dataclass(frozen=True)
class Outcome:
    """What a process did."""

    code: int
    said: str
    found: dict[str, Any]
    seconds: float
    megabytes: float


def call(arguments: list[str]) -> Outcome:
    """Run a command, and return what it used."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        command = [sys.executable, "-m", "logsuper", *arguments]
        process = subprocess.Popen(command, stdout=out, stderr=errors)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), errors.seek(0)
        text = out.read().decode()
        return Outcome(
            process.returncode,
            errors.read().decode(),
            json.loads(text) if text.startswith("{") else {},
            used.ru_utime + used.ru_stime,
            used.ru_maxrss / 1024.0,
        )


def write_noisy(masks: Masks, folder: Path, seed: int) -> None:
    """Flip pixels, and write masks of 0 and 255."""
    rng = np.random.default_rng(seed)
    for name, mask in masks.items():
        noisy = mask ^ (rng.random(mask.shape) < RATE)
        write_image(folder / name, (255 * noisy).astype(np.uint8))


def measure(name: str, masks: Masks, root: Path, options: tuple[str, ...] = ()) -> list[str]:
    """Return a row: errors before, after and as expected, and what it took."""
    folder, out = root / "noisy", root / "clean"
    write_noisy(masks, folder, seed=0)
    done = call(["denoise", str(folder), "--out", str(out), "--json", *options])
    before = after = pixels = 0
    for file, mask in masks.items():
        for place in (folder, out):
            wrong = int(np.count_nonzero((read_image(place / file) > 0) != (mask > 0)))
            before, after = (before + wrong, after) if place == folder else (before, after + wrong)
        pixels += mask.size
    shares, model = done.found["all"], done.found["model"]
    print(name, done.code, f"{100 * after / pixels:.3f} %", flush=True)
    return [
        name,
        f"{100 * before / pixels:.2f}",
        f"{100 * after / pixels:.3f}",
        f"{100 * shares['wrong_after']:.3f}",
        f"{100 * model['noise']:.2f} ± {100 * model['noise_error']:.2f}",
        f"{done.seconds:.0f}",
        f"{done.megabytes:.0f}",
        str(done.code),
    ]


def horses(data: Path) -> Masks:
    """Return all silhouettes of the database at their original sizes."""
    found: Masks = {}
    for file in sorted((data / "weizmann_horse_db" / "figure_ground").glob("*.jpg")):
        with Image.open(file) as picture:
            found[f"{file.stem}.png"] = (np.asarray(picture.convert("L")) > 127).astype(np.uint8)
    return found


def silhouettes(count: int) -> Masks:
    """Return shipped silhouettes."""
    drawn = ls.make_silhouettes(count, (50, 50), seed=0)
    return {f"mask{i:03}.png": mask for i, mask in enumerate(drawn)}


def broken(root: Path) -> list[list[str]]:
    """Clean 200 files of which three are broken; return what is said of them."""
    masks = silhouettes(200)
    write_noisy(masks, root / "noisy", seed=0)
    names = [list(masks)[k] for k in (3, 77, 150)]
    cut, empty, text = (root / "noisy" / name for name in names)
    cut.write_bytes(cut.read_bytes()[:200])
    empty.write_bytes(b"")
    text.write_text("not an image\n")
    done = call(["denoise", str(root / "noisy"), "--out", str(root / "clean")])
    written = sorted(path.name for path in (root / "clean").iterdir() if path.suffix == ".png")
    assert written == [name for name in masks if name not in names], "some masks are not there"
    said = done.said.replace(f"{root / 'noisy'}/", "")
    rows = [["exit code", str(done.code)], ["masks written", str(len(written))]]
    return rows + [["said", line] for line in said.splitlines()]


def run(data: Path | None) -> Section:
    """Run all cases."""
    cases: dict[str, tuple[Callable[[], Masks], tuple[str, ...]]] = {
        "100 shipped silhouettes, 50x50": (lambda: silhouettes(100), ()),
        "one smooth mask, 4000x4000": (
            lambda: {"large.png": blobs(1, 0, (4000, 4000), scale=20.0)[0]},
            (),
        ),
    }
    for volume in ("slices", "whole"):
        cases[f"TIFF stack, 64x256x256, --volume {volume}"] = (
            lambda: {"stack.tif": blobs(1, 0, (64, 256, 256), scale=8.0)[0]},
            ("--volume", volume),
        )
    if data is not None:
        cases["200 horses, original sizes"] = (lambda: horses(data), ())
    rows = []
    for name, (make, options) in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measure(name, make(), Path(folder), options))
    with tempfile.TemporaryDirectory() as folder:
        complaints = broken(Path(folder))
    head = ["masks", "wrong before, %", "after, %", "expected, %", "noise found, %"]
    head += ["CPU seconds", "MB", "exit code"]
    return Section(
        "`logsuper denoise`",
        TEXT,
        [
            Table("10 % flips, noise unknown", head, rows),
            Table("200 files, three of them broken", ["what", "found"], complaints),
        ],
    )
