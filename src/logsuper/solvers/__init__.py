"""Exact maximisers of ``theta'y - f(y)`` over ``y`` in ``{0, 1}^n``."""

# names imported `as` themselves are for other rooms
from logsuper.solvers._flips import LabelLosses
from logsuper.solvers._maximize import maximize
from logsuper.solvers._min_norm import MinNormPoint
from logsuper.solvers._native import kernels as kernels
from logsuper.solvers._noise import logistic_noise as logistic_noise
from logsuper.solvers._parametric import min_norm_point
from logsuper.solvers._prepare import Prepared, prepare
from logsuper.solvers._problems import Maximized, Perturbed, Solved
from logsuper.solvers._problems import check_theta as check_theta
from logsuper.solvers._tile_checkpoint import checkpoint_file as checkpoint_file
from logsuper.solvers._tile_dask import Sealed as Sealed
from logsuper.solvers._tile_grid import Model as Model
from logsuper.solvers._tile_grid import TileGrid as TileGrid
from logsuper.solvers._tile_grid import WeightParts as WeightParts
from logsuper.solvers._tile_grid import box_field as box_field
from logsuper.solvers._tile_grid import lay_problem as lay_problem
from logsuper.solvers._tile_perturb import perturb_tiles
from logsuper.solvers._tile_sources import Window as Window
from logsuper.solvers._tile_sources import crop as crop
from logsuper.solvers._tile_sources import is_dask as is_dask
from logsuper.solvers._tile_units import refuse_nan as refuse_nan
from logsuper.solvers._tile_work import TileMap as TileMap
from logsuper.solvers._tile_work import TileProgress
from logsuper.solvers._tile_work import put_box as put_box
from logsuper.solvers._tiles import Tiled, maximize_tiles
from logsuper.solvers._wolfe import one_blas_thread as one_blas_thread

__all__ = [
    "LabelLosses",
    "Maximized",
    "MinNormPoint",
    "Perturbed",
    "Prepared",
    "Solved",
    "TileProgress",
    "Tiled",
    "maximize",
    "maximize_tiles",
    "min_norm_point",
    "perturb_tiles",
    "prepare",
]
