"""Estimators with the interface of scikit-learn."""

from logsuper.estimators._denoiser import MaskDenoiser
from logsuper.estimators._density import LogSupermodularDensity
from logsuper.estimators._saving import load_model

__all__ = ["LogSupermodularDensity", "MaskDenoiser", "load_model"]
