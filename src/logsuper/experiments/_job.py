"""Long runs in parts: in parallel, with progress; finished parts are stored, and not repeated."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

import logsuper
from logsuper._base import FloatArray, check_natural, load_arrays, save_arrays
from logsuper.solvers import kernels


@dataclasses.dataclass(frozen=True, eq=False)
class Part:
    """A piece of work that gives an array of numbers.

    Attributes
    ----------
    name : str
        Unique in a run, fit for a file name.
    work : callable
        Called with `arguments`, in any process; returns an array.
    arguments : mapping
        Keyword arguments of `work`.
    shape : tuple of int
        Shape of the returned array.
    """

    name: str
    work: Callable[..., FloatArray]
    arguments: Mapping[str, Any]
    shape: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Job:
    """How an experiment is run.

    Attributes
    ----------
    seeds : tuple of int
        Seeds of the data sets of figure 1, and of the noise and the learners elsewhere.
    quick : bool
        Whether to use smaller settings, for a quick check.
    partial : path, optional
        Folder in which finished parts are stored.
    progress : callable, optional
        Called with the number of finished parts and the number of all parts.
    n_jobs : int
        Number of processes; the results do not depend on it.

    Examples
    --------
    >>> from logsuper.experiments import Job
    >>> Job((0, 1)).grid("power", pow, {"base": (2, 3), "exp": (1, 2)}, (), {}).tolist()
    [[2.0, 4.0], [3.0, 9.0]]
    """

    seeds: tuple[int, ...] = (0,)
    quick: bool = False
    partial: str | os.PathLike[str] | None = None
    progress: Callable[[int, int], None] | None = None
    n_jobs: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "seeds", check_list(self.seeds, "seeds", check_natural))

    def do(self, parts: Sequence[Part], depends: Mapping[str, Any]) -> dict[str, FloatArray]:
        """Compute all parts that are not stored yet, and return their arrays by name.

        Parameters
        ----------
        parts : sequence of Part
        depends : mapping
            What the results depend on besides the name of a part, as JSON values; a stored part is
            used only if these are the same.

        Returns
        -------
        dict
        """
        store = None if self.partial is None else Partial(self.partial, depends)
        found: dict[str, FloatArray] = {}
        if store is not None:
            stored = {part.name: store.load(part.name, part.shape) for part in parts}
            found = {name: numbers for name, numbers in stored.items() if numbers is not None}
        tell = self.progress or (lambda done, total: None)
        tell(len(found), len(parts))
        left = [delayed(_do)(part) for part in parts if part.name not in found]
        for name, numbers in Parallel(self.n_jobs, return_as="generator_unordered")(left):
            found[name] = numbers
            if store is not None:
                store.store(name, numbers)
            tell(len(found), len(parts))
        return found

    def grid(
        self,
        name: str,
        work: Callable[..., FloatArray],
        axes: Mapping[str, Sequence[Any]],
        shape: tuple[int, ...],
        depends: Mapping[str, Any],
        *,
        order: Callable[[tuple[Any, ...]], Any] = lambda cell: 0,
        **fixed: Any,
    ) -> FloatArray:
        """Do the same work for all combinations of values of some arguments.

        Parameters
        ----------
        name : str
            Prefix of the names of the parts.
        work : callable
        axes : mapping
            The values of each argument.
        shape : tuple of int
            Shape of the array that `work` returns.
        depends : mapping
            See `do`.
        order : callable
            Sort key of the combinations: the slowest should come first, for even use of processes.
        **fixed
            Arguments with a fixed value.

        Returns
        -------
        ndarray
            With one axis per argument, followed by those of `shape`.
        """
        cells = list(itertools.product(*axes.values()))
        parts = {}
        for cell in cells:
            arguments = {**fixed, **dict(zip(axes, cell, strict=True))}
            parts[cell] = Part("-".join([name, *map(str, cell)]), work, arguments, shape)
        found = self.do([parts[cell] for cell in sorted(cells, key=order)], depends)
        numbers = [found[parts[cell].name] for cell in cells]
        return np.array(numbers).reshape(*map(len, axes.values()), *shape)


def check_list(
    values: Iterable[Any], name: str, check: Callable[[object, str], Any]
) -> tuple[Any, ...]:
    """Return the checked entries of a non-empty list without repetitions."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a list of numbers, got {type(values).__name__}")
    entries = tuple(check(value, f"{name}[{i}]") for i, value in enumerate(values))
    if not entries:
        raise ValueError(f"{name} is empty; give at least one")
    if len(set(entries)) < len(entries):
        raise ValueError(f"{name} has an entry twice, got {list(entries)}")
    return entries


def _do(part: Part) -> tuple[str, FloatArray]:
    """Compute a part, with one thread for linear algebra since parts run in parallel."""
    with threadpool_limits(1):
        numbers = np.asarray(part.work(**part.arguments), dtype=np.float64)
    if numbers.shape != part.shape:
        raise ValueError(f"{part.name} returned shape {numbers.shape}, not {part.shape}")
    return part.name, numbers


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
