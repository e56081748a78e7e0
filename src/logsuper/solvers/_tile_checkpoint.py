"""Files of finished tiles, so that a run that was stopped does not solve them again."""

from __future__ import annotations

import hashlib
import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from logsuper._base import Tile, extent, load_arrays, save_arrays
from logsuper.solvers._tile_grid import WeightParts, box_field
from logsuper.solvers._tile_solve import OPEN, Solution, Task

_KIND, _VERSION = "tile", 2


def checkpoint_file(
    folder: Path, tile: Tile, field: tuple[Any, Any], weights: WeightParts, *others: object
) -> Path:
    """Return the name of the file of a tile, which depends on all numbers it is computed from."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(repr((tile, *others)).encode())
    digest.update(box_field(field).data)
    shape = extent(tile.outer)
    for k in range(len(weights.steps)):
        digest.update(np.ascontiguousarray(weights.of(k, shape)).data)
    corner = "-".join(str(side.start) for side in tile.core)
    return folder / f"{corner}-{digest.hexdigest()}.npz"


class Checkpoint:
    """A folder with one file per finished tile.

    A file is used only if it was made for the same numbers: its name has a checksum of the fields
    and weights of the tile, and of how the whole image is rounded.

    Parameters
    ----------
    folder : str or path
        Created if it does not exist.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"checkpoint = {folder} is a file; give the name of a folder")
        self.folder.mkdir(parents=True, exist_ok=True)

    def path(self, task: Task) -> Path:
        """Return the name of the file of a task; reads the fields of the tile."""
        others = (task.shape, task.units, task.tie)
        return checkpoint_file(self.folder, task.tile, task.field, task.weights, *others)

    def load(self, path: Path) -> Solution | None:
        """Return the solution in a file, or None if there is none, or it is damaged."""
        try:
            header, arrays = load_arrays(path, _KIND, _VERSION)
            shape = tuple(int(size) for size in header["shape"])
            count = math.prod(shape)
            labels = np.unpackbits(arrays["labels"], count=count)
            if "open" in arrays:
                labels[np.unpackbits(arrays["open"], count=count).view(bool)] = OPEN
        except (FileNotFoundError, KeyError, TypeError, ValueError):
            return None
        return Solution(labels.reshape(shape), 0)

    def save(self, path: Path, solution: Solution) -> None:
        """Write the solution of a tile."""
        arrays: dict[str, Any] = {"labels": np.packbits(solution.labels == 1)}
        is_open = solution.labels == OPEN
        if is_open.any():
            arrays["open"] = np.packbits(is_open)
        save_arrays(path, _KIND, _VERSION, {"shape": list(solution.labels.shape)}, arrays)


def run_saved(task: Task, checkpoint: Checkpoint | None) -> Solution:
    """Solve the tile of a task, unless a file has its solution."""
    if checkpoint is None:
        return task.run()
    path = checkpoint.path(task)
    found = checkpoint.load(path)
    if found is None:
        found = task.run()
        checkpoint.save(path, found)
    return found
