"""Stored results of finished parts of a long run, so that an interrupted run can continue."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn

import logsuper
from logsuper._base import FloatArray, load_arrays, save_arrays
from logsuper.solvers import kernels

_KIND, _VERSION = "part", 1


class Partial:
    """A folder of arrays, one file per part; a part is reused only with the same arguments.

    Parameters
    ----------
    folder : path
    arguments : mapping
        Everything that the arrays depend on, as JSON values. A checksum of the code is added (see
        `source`), so that results of different code are never mixed in one table.
    """

    def __init__(self, folder: str | os.PathLike[str], arguments: Mapping[str, Any]) -> None:
        # converted to JSON and back, so that tuples compare equal to the lists in stored files
        self._arguments = json.loads(json.dumps({**arguments, "source": source()}))
        text = json.dumps(self._arguments, sort_keys=True)
        self._folder = Path(folder)
        self._tag = hashlib.sha256(text.encode()).hexdigest()[:12]

    def path(self, name: str) -> Path:
        """Return the file of a part."""
        return self._folder / f"{name}-{self._tag}.npz"

    def load(self, name: str, shape: tuple[int, ...]) -> FloatArray | None:
        """Return the array of a part; None if it is not stored, or, with a warning, if damaged.

        A part whose file has changed is computed again.
        """
        path = self.path(name)
        try:
            header, arrays = load_arrays(path, _KIND, _VERSION)
            result = arrays["result"]
            if header.get("arguments") != self._arguments:
                raise ValueError(f"{path}: belongs to another run than its name says")
            if result.dtype != np.float64 or result.shape != shape:
                raise ValueError(f"{path}: holds {result.dtype} {result.shape}, not {shape}")
            return result
        except FileNotFoundError:
            return None
        except (KeyError, ValueError, OSError) as error:
            warnings.warn(f"{error}; this part is computed again", RuntimeWarning, stacklevel=3)
            return None

    def store(self, name: str, result: FloatArray) -> None:
        """Write the array of a finished part, with a checksum."""
        header = {"arguments": self._arguments}
        save_arrays(self.path(name), _KIND, _VERSION, header, {"result": result})


@functools.cache
def source() -> str:
    """Return a checksum of all code that results depend on.

    It covers the Python source of the package, its compiled kernels if they are used, and the
    versions of numpy, scipy and scikit-learn. Results stored under another checksum are computed
    again.
    """
    libraries = {library.__name__: library.__version__ for library in (np, scipy, sklearn)}
    total = hashlib.sha256(repr(libraries).encode())
    module = kernels()
    compiled = [] if module is None else [Path(str(module.__file__))]
    for file in [*sorted(Path(logsuper.__file__).parent.rglob("*.py")), *compiled]:
        content = file.read_bytes()
        # name and length are included, so that different source trees have different checksums
        total.update(f"{file.name} {file.parent.name} {len(content)}\0".encode() + content)
    return total.hexdigest()[:12]
