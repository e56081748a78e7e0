"""Exact maximisers of ``theta'y - f(y)`` over ``y`` in ``{0, 1}^n``."""

# names imported `as` themselves are for other rooms
from logsuper.solvers._maximize import maximize
from logsuper.solvers._min_norm import MinNormPoint
from logsuper.solvers._native import kernels as kernels
from logsuper.solvers._noise import logistic_noise as logistic_noise
from logsuper.solvers._parametric import min_norm_point
from logsuper.solvers._prepare import Prepared, prepare
from logsuper.solvers._problems import Maximized, Perturbed, Solved
from logsuper.solvers._problems import check_theta as check_theta
from logsuper.solvers._wolfe import one_blas_thread as one_blas_thread

__all__ = [
    "Maximized",
    "MinNormPoint",
    "Perturbed",
    "Prepared",
    "Solved",
    "maximize",
    "min_norm_point",
    "prepare",
]
