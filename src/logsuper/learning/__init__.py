"""Learning the parameters of log-supermodular models."""

from logsuper.learning._engines import FixedNoise, FreshNoise
from logsuper.learning._examples import Examples, make_examples
from logsuper.learning._layout import Layout, Parameters
from logsuper.learning._learned import Learned, Record
from logsuper.learning._objective import Loss, Objective
from logsuper.learning._penalty import Penalty

__all__ = [
    "Examples",
    "FixedNoise",
    "FreshNoise",
    "Layout",
    "Learned",
    "Loss",
    "Objective",
    "Parameters",
    "Penalty",
    "Record",
    "make_examples",
]
