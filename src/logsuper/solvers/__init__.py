"""Exact maximisers of ``theta'y - f(y)`` over ``y`` in ``{0, 1}^n``."""

from logsuper.solvers._maximize import maximize
from logsuper.solvers._min_norm import MinNormPoint
from logsuper.solvers._parametric import min_norm_point
from logsuper.solvers._prepare import Prepared, prepare
from logsuper.solvers._results import Perturbed

__all__ = ["MinNormPoint", "Perturbed", "Prepared", "maximize", "min_norm_point", "prepare"]
