"""Estimators with the interface of scikit-learn."""

from logsuper.estimators._crf import MaskCRF
from logsuper.estimators._denoiser import MaskDenoiser
from logsuper.estimators._density import LogSupermodularDensity
from logsuper.estimators._flatten import flatten_light
from logsuper.estimators._saving import load_model
from logsuper.estimators._scoring import pixel_scorer
from logsuper.estimators._scribbles import draw_scribbles as draw_scribbles
from logsuper.estimators._segmentation import Segmentation, Suggestion
from logsuper.estimators._segmenter import ScribbleSegmenter, segment
from logsuper.estimators._session import ScribbleSession
from logsuper.estimators._training import reuse_classifiers as reuse_classifiers

__all__ = [
    "LogSupermodularDensity",
    "MaskCRF",
    "MaskDenoiser",
    "ScribbleSegmenter",
    "ScribbleSession",
    "Segmentation",
    "Suggestion",
    "flatten_light",
    "load_model",
    "pixel_scorer",
    "segment",
]
