"""What is in a saved model of any kind, as JSON can hold it, and as sentences and a table."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from logsuper.cli._found import words_of_model
from logsuper.cli._learning import describe_model

if TYPE_CHECKING:
    from logsuper.estimators import (
        LogSupermodularDensity,
        MaskCRF,
        MaskDenoiser,
        ScribbleSegmenter,
    )

_Rows = list[tuple[str, str]]


@dataclasses.dataclass(frozen=True)
class Description:
    """What is in a model.

    Attributes
    ----------
    facts : dict
        As JSON can hold them.
    does : str
        What the model is for, after its name.
    sentences : list of str
    rows : list of (str, str)
        Further facts and their values.
    """

    facts: dict[str, Any]
    does: str
    sentences: list[str]
    rows: _Rows


def describe(model: Any) -> Description:
    """Return what is in a fitted estimator."""
    kind = type(model).__name__
    found = _KINDS[kind](model)
    return dataclasses.replace(found, facts={"kind": kind, **found.facts})


def _denoiser(model: MaskDenoiser) -> Description:
    found = describe_model(model)
    shape = "x".join(map(str, found["shape"])) if found["modular"] == "per pixel" else "any"
    radius, modular = found["filter_radius"], found["modular"]
    rows = [
        ("size of images", shape),
        ("weight of an observation", f"{found['observation_weight']:.3f}"),
        ("filter of observations", f"{radius} pixels around" if radius else "none"),
        ("preference for white", modular if isinstance(modular, str) else f"{modular:.3f}"),
        ("learned by", _learned(found)),
    ]
    does = f"cleans {'volumes' if found['axes'] == 3 else 'images'}"
    return Description(found, does, words_of_model(found), rows)


def _learned(found: dict[str, Any]) -> str:
    return str(found["learner"]) + ("" if found["converged"] else ", not to convergence")


def _crf(model: MaskCRF) -> Description:
    import numpy as np

    calibration = model.calibration_
    found: dict[str, Any] = {
        "learner": model.learner_,
        "converged": bool(model.converged_),
        "unary": model.unary if isinstance(model.unary, str) else type(model.unary).__name__,
        "weights": np.asarray(model.alpha_).tolist(),
        "features": int(np.size(model.beta_)),
        "modular": float(model.modular_),
        "calibration": [float(calibration.field), float(calibration.unary)],
        "working_size": None if model.working_size_ is None else int(model.working_size_),
    }
    strength = float(np.sum(model.alpha_))
    plural = "s" * (found["features"] > 1)
    given = "log-odds that are given" if found["unary"] == "log_odds" else found["unary"]
    rows = [
        ("each pixel by", f"{given} ({found['features']} weight{plural})"),
        ("weights of neighbours", f"{np.size(model.alpha_)}, {strength:.3f} in all (nats)"),
        ("preference for white", f"{found['modular']:.3f}"),
        ("size at work", f"{found['working_size'] or 'that of the image'}"),
        ("learned by", _learned(found)),
    ]
    return Description(found, "predicts masks of images (MaskCRF)", [], rows)


def _segmenter(model: ScribbleSegmenter) -> Description:
    import numpy as np

    learned = getattr(model, "constants_", None)
    found: dict[str, Any] = {
        "constants": {
            name: np.asarray(value, dtype=np.float64).tolist()
            for name, value in (learned or {}).items()
        },
        "learn": model.learn,
        "trust": float(model.trust),
        "neighbors": model.neighbors,
    }
    rows = [
        (name, ", ".join(f"{one:.4g}" for one in np.ravel(value)))
        for name, value in found["constants"].items()
    ]
    rows += [("learns from strokes", "yes" if model.learn == "strokes" else "no")]
    rows += [("trust in scribbles", f"{model.trust:g}")]
    return Description(found, "segments photographs by scribbles", [], rows)


def _density(model: LogSupermodularDensity) -> Description:
    import numpy as np

    brackets = [[float(one.lower), float(one.upper)] for one in model.brackets_]
    found: dict[str, Any] = {
        "features": int(model.n_features_in_),
        "components": len(model.models_),
        "shares": np.asarray(model.weights_, dtype=np.float64).tolist(),
        "log_partition": brackets,
    }
    rows = [
        (f"component {k + 1}: share, ln Z", f"{share:.3f}, [{low:.6g}, {high:.6g}]")
        for k, (share, (low, high)) in enumerate(zip(found["shares"], brackets, strict=True))
    ]
    does = f"is a density of rows of {found['features']} zeros and ones"
    return Description(found, does, [], rows)


_KINDS: dict[str, Callable[[Any], Description]] = {
    "MaskDenoiser": _denoiser,
    "MaskCRF": _crf,
    "ScribbleSegmenter": _segmenter,
    "LogSupermodularDensity": _density,
}
