"""Fitted estimators in files without code: numbers as arrays, the rest as a JSON header."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from logsuper._files import load_arrays, save_arrays
from logsuper.channels import AsymmetricFlips, Channel, Flips, Gaussian, Missing
from logsuper.functions._base import SubmodularFunction
from logsuper.functions._cardinality import ConcaveCardinality
from logsuper.functions._cut import Cut
from logsuper.functions._grid import grid_cuts
from logsuper.functions._modular import Modular
from logsuper.functions._sum import Sum
from logsuper.learning import Parameters, Record

__all__ = ["Saveable", "load_model"]

_KIND = "model"
_VERSION = 1

_CHANNELS: dict[str, tuple[type[Channel], tuple[str, ...]]] = {
    "flips": (Flips, ("rate", "groups")),
    "asymmetric": (AsymmetricFlips, ("on", "off")),
    "gaussian": (Gaussian, ("mean", "scale")),
    "missing": (Missing, ("rate", "channel")),
}


class Saveable:
    """What lets an estimator be written to a file and read back, without pickle.

    An estimator names in `_FITTED` the attributes that `fit` sets and a file keeps; `_refit` makes
    the others from them.
    """

    _FITTED: tuple[str, ...]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to a file that `load_model` reads.

        The file holds numbers and text only, so that reading a stranger's is safe. What a file
        cannot hold is refused with a reason; a callback and a generator are left out.

        Parameters
        ----------
        path : str or path
        """
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        packer = _Packer({})
        params = self.get_params(deep=False)  # type: ignore[attr-defined]
        params["callback"] = None
        if not isinstance(params["random_state"], int | np.integer | None):
            params["random_state"] = None  # used up by the fit
        header = {
            "estimator": type(self).__name__,
            "params": {name: packer.pack(value, name) for name, value in params.items()},
            "fitted": {
                name: packer.pack(getattr(self, name), name.strip("_"))
                for name in self._FITTED
                if hasattr(self, name)
            },
        }
        save_arrays(path, _KIND, _VERSION, header, packer.arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an estimator of this class that `save` wrote.

        Parameters
        ----------
        path : str or path
        """
        found = load_model(path)
        if not isinstance(found, cls):
            raise ValueError(f"{path}: a {type(found).__name__}, not a {cls.__name__}")
        return found

    def _refit(self) -> None:
        """Make what a file does not hold."""


def load_model(path: str | os.PathLike[str]) -> Any:
    """Read a fitted estimator that its method `save` wrote.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    MaskDenoiser or LogSupermodularDensity

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is no model, newer than this version of the library, truncated or corrupted.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import logsuper as ls
    >>> X = [[0, 0, 0], [1, 1, 1], [1, 1, 0], [0, 0, 0]]
    >>> density = ls.LogSupermodularDensity().fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     density.save(Path(folder) / "density.npz")
    ...     same = ls.load_model(Path(folder) / "density.npz")
    >>> bool((same.score_samples(X) == density.score_samples(X)).all())
    True
    """
    from logsuper.estimators import _denoiser, _density

    header, arrays = load_arrays(path, _KIND, _VERSION)
    classes = {c.__name__: c for c in (_denoiser.MaskDenoiser, _density.LogSupermodularDensity)}
    try:
        packer = _Packer(arrays)
        read = {
            part: {name: packer.unpack(value) for name, value in header[part].items()}
            for part in ("params", "fitted")
        }
        estimator = classes[header["estimator"]](**read["params"])
        for name in estimator._FITTED:
            if name in read["fitted"]:
                setattr(estimator, name, read["fitted"][name])
        estimator._refit()
    except Exception as error:  # a well-formed file with contents that make no sense
        raise ValueError(f"{path}: the model in this file is malformed ({error!r})") from error
    return estimator


class _Packer:
    """Turns values into JSON, with arrays kept aside, and back."""

    def __init__(self, arrays: dict[str, NDArray[Any]]) -> None:
        self.arrays = arrays

    def pack(self, value: Any, name: str) -> Any:
        """Return a value as JSON; an object becomes ``{"is": kind, ...}``."""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        if isinstance(value, list | tuple):
            kind = "list" if isinstance(value, list) else "tuple"
            items = [self.pack(v, f"{name}[{i}]") for i, v in enumerate(value)]
            return {"is": kind, "parts": items}
        if isinstance(value, dict):
            if not all(isinstance(key, str) for key in value):
                raise TypeError(f"{name} has a key that is no text, which a file cannot hold")
            entries = {key: self.pack(v, f"{name}[{key!r}]") for key, v in value.items()}
            return {"is": "dict", "parts": entries}
        if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            key = f"a{len(self.arrays)}"
            self.arrays[key] = value
            return {"is": "array", "parts": key}
        if isinstance(value, np.ndarray) and all(isinstance(v, str) for v in value):
            return {"is": "names", "parts": {"names": self.pack(value.tolist(), name)}}
        kind, parts = _take_apart(value, name)
        return {"is": kind, "parts": {key: self.pack(v, name) for key, v in parts.items()}}

    def unpack(self, value: Any) -> Any:
        """Return what `pack` was given."""
        if not isinstance(value, dict):
            return value
        kind, parts = value["is"], value["parts"]
        if kind == "array":
            return self.arrays[parts]
        if kind in ("list", "tuple"):
            return (list if kind == "list" else tuple)(self.unpack(part) for part in parts)
        found = {key: self.unpack(part) for key, part in parts.items()}
        return found if kind == "dict" else _MAKERS[kind](**found)


def _take_apart(value: object, name: str) -> tuple[str, dict[str, Any]]:
    """Return the kind of an object and what it is made of."""
    for kind, (channel, attributes) in _CHANNELS.items():
        if type(value) is channel:
            parts = {key: getattr(value, key) for key in attributes}
            if isinstance(value, Gaussian) and value.tied:
                parts["scale"] = value.scale[0]  # one number stays one in `refit`
            return kind, parts
    match value:
        case Parameters():
            return "parameters", _fields(value)
        case Record():
            return "record", _fields(value)
        case Sum():
            weights, atoms = zip(*value.terms(), strict=True)
            return "sum", {"weights": weights, "atoms": atoms}
        case Modular():
            return "modular", {"t": value.t}
        case ConcaveCardinality():
            return "cardinality", {"g": value.g, "n": value.n, "subset": value.subset}
        case Cut(shape=None):
            return "cut", {"n": value.n, "edges": value.edges, "weights": value.weights}
        case Cut():
            alike = bool((value.weights == value.weights[:1]).all())
            kept = value.weights[:1] if alike else value.weights
            return "grid", {"shape": value.shape, "offset": value.offset, "weights": kept}
        case SubmodularFunction():
            raise TypeError(
                f"{name} is {value!r}, which a file without code cannot hold: it holds cuts, "
                "modular and cardinality functions; pickle the estimator instead"
            )
    raise TypeError(
        f"{name} is a {type(value).__name__}, which a file without code cannot hold; give numbers, "
        "functions or a channel, or pickle the estimator instead"
    )


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _make_grid(
    shape: tuple[int, ...], offset: tuple[int, ...], weights: NDArray[np.float64]
) -> Cut:
    """Return the cut of one direction of a grid."""
    most = {1: 2, 2: 8, 3: 26}[len(shape)]
    cut = next(cut for cut in grid_cuts(shape, most) if cut.offset == offset)
    if (weights == 1.0).all():
        return cut
    return cut.with_weights(float(weights[0]) if len(weights) == 1 else weights)


def _make_sum(
    weights: tuple[float, ...], atoms: tuple[SubmodularFunction, ...]
) -> SubmodularFunction:
    return Sum(zip(weights, atoms, strict=True))


_MAKERS: dict[str, Callable[..., Any]] = {
    **{kind: channel for kind, (channel, _) in _CHANNELS.items()},
    "names": lambda names: np.array(names, dtype=object),
    "parameters": Parameters,
    "record": Record,
    "sum": _make_sum,
    "modular": Modular,
    "cardinality": ConcaveCardinality,
    "cut": Cut,
    "grid": _make_grid,
}
