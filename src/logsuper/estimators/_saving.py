"""Fitted estimators in files without code: numbers as arrays, the rest as a JSON header.

Boosted trees of scikit-learn are numbers, too: what was fitted is kept as `Trees`, and a classifier
that was given as an argument as its settings.
"""

from __future__ import annotations

import dataclasses
import math
import os
import sys
from collections.abc import Callable
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from logsuper._base import (
    as_vector,
    check_natural,
    check_number,
    load_arrays,
    refuse_negative,
    save_arrays,
)
from logsuper.channels import CHANNELS, Channel
from logsuper.estimators._blind_spot import BlindSpot
from logsuper.estimators._calibration import Calibration
from logsuper.estimators._trees import Trees
from logsuper.functions import ConcaveCardinality, Cut, Modular, SubmodularFunction, Sum, grid_cuts
from logsuper.learning import LEARNERS, Parameters, Record

__all__ = ["Saveable", "load_model"]

_KIND = "model"
_VERSION = 1


class Saveable:
    """Lets an estimator be written to a file and read back, without pickle.

    `_FITTED` names the attributes that `fit` sets and files hold; `_OPTIONAL` those of them that
    are not in every file. `_refit` recomputes derived attributes, in time and memory proportional
    to these: the file may be a stranger's.
    """

    _FITTED: tuple[str, ...]
    _OPTIONAL: tuple[str, ...] = ()

    def save(self, path: str | os.PathLike[str] | BinaryIO) -> None:
        """Write the fitted estimator to a file that `load_model` reads.

        The file holds numbers and text only, so that reading a stranger's is safe. What a file
        cannot hold is refused with a reason; a callback, a generator and the path of a checkpoint
        are left out.

        Parameters
        ----------
        path : str, path or binary file
            An open file must be empty, and open for reading too, such as an `io.BytesIO`.
        """
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        packer = _Packer({})
        params = self.get_params(deep=False)  # type: ignore[attr-defined]
        params["callback"] = None
        if not isinstance(params["random_state"], int | np.integer | None):
            params["random_state"] = None  # used up by the fit
        if "options" in params:
            params["options"] = without_paths(params["options"])
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
        """Recompute derived attributes; refuse fitted ones that do not belong together."""


def load_model(path: str | os.PathLike[str]) -> Any:
    """Read a fitted estimator that its method `save` wrote.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    MaskDenoiser, MaskCRF, ScribbleSegmenter or LogSupermodularDensity

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is not a model, newer than this version of the library, truncated or corrupted.

    Notes
    -----
    Nothing in the file is run. Loading takes time and memory proportional to the size of the file;
    using the model takes what a model of its size takes. A checksum guards against damage, not
    against somebody who writes a file with a matching one.

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
    from logsuper.estimators import _crf, _denoiser, _density, _segmenter

    header, arrays = load_arrays(path, _KIND, _VERSION)
    known = (
        _denoiser.MaskDenoiser,
        _crf.MaskCRF,
        _density.LogSupermodularDensity,
        _segmenter.ScribbleSegmenter,
    )
    classes: dict[str, Any] = {kind.__name__: kind for kind in known}
    try:
        packer = _Packer(arrays)
        params, fitted = (
            {name: packer.unpack(value) for name, value in header[part].items()}
            for part in ("params", "fitted")
        )
        params = _renamed(params)
        if "options" in params:
            params["options"] = _renamed(without_paths(params["options"]))
        estimator = classes[header["estimator"]](**params)
        for name in estimator._FITTED:
            if name in fitted or name not in estimator._OPTIONAL:
                if not _KINDS[name](fitted[name]):
                    raise ValueError(f"{name} is not what it should be")
                setattr(estimator, name, fitted[name])
        estimator._refit()
    except Exception as error:  # a well-formed file whose contents are not a model
        reason = repr(error)[:200]
        raise ValueError(f"{path}: the model in this file is malformed ({reason})") from None
    return estimator


def without_paths(options: Any) -> Any:
    """Return options of a learner without a checkpoint: a stranger's must not choose a path."""
    if not isinstance(options, dict):
        return options
    return {key: value for key, value in options.items() if key != "checkpoint"}


# Parameters that had another name in earlier files.
_RENAMED = {
    "samples": "n_samples",
    "prior_samples": "n_prior_samples",
    **dict.fromkeys(("max_steps", "max_iterations", "max_rounds"), "max_iter"),
}


def _renamed(params: Any) -> Any:
    """Return parameters under the names that they have now."""
    if not isinstance(params, dict):
        return params
    return {_RENAMED.get(name, name): value for name, value in params.items()}


_KINDS: dict[str, Callable[[Any], bool]] = {
    "parameters_": lambda value: isinstance(value, Parameters),
    "channel_": lambda value: isinstance(value, Channel),
    "functions_": lambda value: _all(value, SubmodularFunction),
    "_energies": lambda value: _all(value, SubmodularFunction),
    "weights_": lambda value: (
        isinstance(value, np.ndarray)
        and value.ndim == 1
        and bool((value > 0).all())
        and abs(value.sum() - 1.0) < 1e-9
    ),
    "history_": lambda value: _all(value, Record),
    "learner_": lambda value: value in LEARNERS,
    "converged_": lambda value: isinstance(value, bool),
    "n_features_in_": lambda value: type(value) is int and value > 0,
    "feature_names_in_": lambda value: isinstance(value, np.ndarray) and value.ndim == 1,
    "decode_factor_": lambda value: isinstance(value, int | float) and 0 < value < math.inf,
    "temperature_": lambda value: isinstance(value, int | float) and 0 < value < math.inf,
    "selection_": lambda value: _all(value, dict) and all(map(_is_row, value)),
    "constants_": lambda value: (
        isinstance(value, dict)
        and all(isinstance(v, float) for k, v in value.items() if k != "calibration")
        and _all(value["calibration"], float)
        and len(value["calibration"]) == 5
    ),
    "shape_": lambda value: value is None or (_all(value, int) and len(value) in (1, 2, 3)),
    "surroundings_": lambda value: value is None or (isinstance(value, BlindSpot) and value.valid),
    "noise_stderr_": lambda value: isinstance(value, float) or _all(value, float),
    "_key": lambda value: type(value) is int and 0 <= value < 2**64,
    "unary_": lambda value: value is None or (isinstance(value, Trees) and value.valid),
    "calibration_": lambda value: isinstance(value, Calibration) and value.valid,
    "_plan": lambda value: (
        isinstance(value, dict)
        and value["axes"] in (1, 2, 3)
        and isinstance(value["graphs"], bool)
        and _all(value["channels"], int)
        and (value["scaling"] is None or isinstance(value["scaling"], np.ndarray))
        and value["coupling"]["kind"] in ("contrast", "uniform", "none")
        and _all(value["coupling"]["scales"], float)
        and isinstance(value["coupling"]["spread"], np.ndarray)
        and type(value["coupling"]["neighbors"]) in (int, type(None))
        and ((size := value["working_size"]) is None or (type(size) is int and size > 0))
        and 0 <= value["refinement"]["strength"] < math.inf
        and value["refinement"]["calibration"].valid
    ),
    "_design": lambda value: (
        isinstance(value, dict)
        and value["axes"] in (1, 2, 3)
        and value["modular"] in ("pixel", "shared", "none")
        and type(value["context"]) is int
        and 0 <= value["context"] <= 64
        and isinstance(value["scale"], bool)
        and isinstance(value.get("trees", False), bool)
    ),
}
"""Checks of the fitted attributes."""


def _is_row(row: dict[str, Any]) -> bool:
    """Return whether a row of a selection holds the numbers that it should."""
    names = {"context", "scale", "penalty", "score", "behind", "stderr"}
    return row.keys() - {"trees"} == names and all(
        isinstance(value, int | float) for value in row.values()
    )


def _all(values: Any, kind: type) -> bool:
    return isinstance(values, tuple) and all(isinstance(value, kind) for value in values)


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
        if isinstance(value, Calibration):
            parts = {key: self.pack(v, name) for key, v in value._asdict().items()}
            return {"is": "calibration", "parts": parts}
        if isinstance(value, list | tuple):
            kind = "list" if isinstance(value, list) else "tuple"
            items = [self.pack(v, f"{name}[{i}]") for i, v in enumerate(value)]
            return {"is": kind, "parts": items}
        if isinstance(value, dict):
            if not all(isinstance(key, str) for key in value):
                raise TypeError(f"{name} has a key that is not text, which a file cannot hold")
            entries = {key: self.pack(v, f"{name}[{key!r}]") for key, v in value.items()}
            return {"is": "dict", "parts": entries}
        if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            key = f"a{len(self.arrays)}"
            self.arrays[key] = value
            return {"is": "array", "parts": key}
        if isinstance(value, np.ndarray) and all(isinstance(v, str) for v in value):
            return {"is": "names", "parts": {"names": self.pack(value.tolist(), name)}}
        if is_boosting(value):
            settings = {key: v for key, v in _settings(value).items() if v is not None}
            return {"is": "boosting", "parts": self.pack(settings, name)["parts"]}
        kind, parts = _take_apart(value, name)
        return {"is": kind, "parts": {key: self.pack(v, name) for key, v in parts.items()}}

    def unpack(self, value: Any) -> Any:
        """Return what `pack` was given."""
        if not isinstance(value, dict):
            return value
        kind, parts = value["is"], value["parts"]
        if kind == "array":
            # only once: copies of one array in many places would take more memory than the file
            return self.arrays.pop(parts)
        if kind in ("list", "tuple"):
            return (list if kind == "list" else tuple)(self.unpack(part) for part in parts)
        found = {key: self.unpack(part) for key, part in parts.items()}
        if kind in CHANNELS:
            return Channel.from_dict({**found, "kind": kind})
        return _MAKERS[kind](**found)


def _take_apart(value: object, name: str) -> tuple[str, dict[str, Any]]:
    """Return the kind of an object and what it is made of."""
    match value:
        case Channel():
            parts = value.to_dict()
            return parts.pop("kind"), parts
        case Parameters() | Record():
            return type(value).__name__.lower(), dataclasses.asdict(value)
        case BlindSpot() | Trees():
            names = [field.name for field in dataclasses.fields(value)]
            return type(value).__name__.lower(), {name: getattr(value, name) for name in names}
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
    if hasattr(value, "fit"):
        raise TypeError(
            f"{name} is a {type(value).__name__}, which a file without code cannot hold: of "
            "classifiers it holds scikit-learn's HistGradientBoostingClassifier; use that, or "
            "pickle the estimator instead"
        )
    raise TypeError(
        f"{name} is a {type(value).__name__}, which a file without code cannot hold; give numbers, "
        "functions or a channel, or pickle the estimator instead"
    )


def is_boosting(value: object) -> bool:
    """Return whether an object is the classifier whose trees files can hold."""
    module = sys.modules.get("sklearn.ensemble")  # slow to import; without it there is none
    return module is not None and type(value) is module.HistGradientBoostingClassifier


def _settings(classifier: Any) -> dict[str, Any]:
    """Return the arguments of a classifier; a generator, which the fit has used up, as None."""
    settings: dict[str, Any] = classifier.get_params(deep=False)
    if not isinstance(settings["random_state"], int | np.integer):
        settings["random_state"] = None
    if isinstance(settings["class_weight"], dict):  # its keys are labels
        settings["class_weight"] = list(settings["class_weight"].items())
    return settings


def _make_boosting(**settings: Any) -> Any:
    """Return the classifier with its settings, those that this version of scikit-learn has."""
    from sklearn.ensemble import HistGradientBoostingClassifier  # slow to import

    known = HistGradientBoostingClassifier().get_params()
    if isinstance(settings.get("class_weight"), list):
        settings["class_weight"] = dict(settings["class_weight"])
    return HistGradientBoostingClassifier(**{k: v for k, v in settings.items() if k in known})


def _make_grid(
    shape: tuple[int, ...], offset: tuple[int, ...], weights: NDArray[np.float64]
) -> Cut:
    """Return the cut of one direction of a grid."""
    most = {1: 2, 2: 8, 3: 26}[len(shape)]
    cut = next(cut for cut in grid_cuts(shape, most) if cut.offset == offset)
    if not weights.size:  # no edges: an image of one row, for instance
        return cut
    return cut.with_weights(weights[0] if len(weights) == 1 else weights)


def _make_sum(
    weights: tuple[float, ...], atoms: tuple[SubmodularFunction, ...]
) -> SubmodularFunction:
    if 0 in weights:  # no sum has one; a sum of only such terms would make an array of n zeros
        raise ValueError("a sum has a term of weight 0")
    return Sum(zip(weights, atoms, strict=True))


def _make_parameters(alpha: Any, modular: Any, beta: Any, scale: Any) -> Parameters:
    weights = as_vector(alpha, "alpha")
    refuse_negative(weights, "alpha", "a weight of a function must be at least 0")
    w = check_number(scale, "scale")
    return Parameters(weights, as_vector(modular, "modular"), as_vector(beta, "beta"), w)


def _make_record(step: Any, cuts: Any, objective: Any, stderr: Any, gap: Any) -> Record:
    if not all(isinstance(number, int | float) for number in (objective, stderr, gap)):
        raise TypeError("a record holds something else than numbers")
    return Record(check_natural(step, "step"), check_natural(cuts, "cuts"), objective, stderr, gap)


_MAKERS: dict[str, Callable[..., Any]] = {
    "dict": dict,
    "names": lambda names: np.array(names, dtype=object),
    "parameters": _make_parameters,
    "record": _make_record,
    "calibration": Calibration,
    "blindspot": BlindSpot,
    "trees": Trees,
    "boosting": _make_boosting,
    "sum": _make_sum,
    "modular": Modular,
    "cardinality": ConcaveCardinality,
    "cut": Cut,
    "grid": _make_grid,
}
