"""Estimators with the interface of scikit-learn."""

from logsuper.estimators._crf import MaskCRF
from logsuper.estimators._denoiser import MaskDenoiser
from logsuper.estimators._density import LogSupermodularDensity
from logsuper.estimators._flatten import flatten_light
from logsuper.estimators._saving import load_model
from logsuper.estimators._scoring import pixel_scorer

__all__ = [
    "LogSupermodularDensity",
    "MaskCRF",
    "MaskDenoiser",
    "flatten_light",
    "load_model",
    "pixel_scorer",
]
