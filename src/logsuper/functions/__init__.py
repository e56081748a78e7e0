"""Submodular functions f on {0,1}^n with f(0) = 0, one family per file."""

from logsuper.functions._base import SubmodularFunction

# for other rooms
from logsuper.functions._base import check_function as check_function
from logsuper.functions._callable import SetFunction
from logsuper.functions._cardinality import ConcaveCardinality, ConcaveOfModular
from logsuper.functions._coverage import Coverage, FacilityLocation
from logsuper.functions._cut import Cut
from logsuper.functions._gaussian import GaussianInformation, LogDet
from logsuper.functions._graph import PairwiseGraph
from logsuper.functions._graph import merge_edges as merge_edges
from logsuper.functions._graph import rounding as rounding
from logsuper.functions._grid import grid_cuts
from logsuper.functions._grid import grid_shape as grid_shape
from logsuper.functions._hyperedge import PnPotts, RobustPn
from logsuper.functions._modular import Modular
from logsuper.functions._modular import zero as zero
from logsuper.functions._submodularity import SubmodularityReport, check_submodular
from logsuper.functions._sum import Sum
from logsuper.functions._sum import combine as combine
from logsuper.functions._sum import split_modular as split_modular
from logsuper.functions._walks import Evaluated as Evaluated
from logsuper.functions._walks import Walk as Walk

__all__ = [
    "ConcaveCardinality",
    "ConcaveOfModular",
    "Coverage",
    "Cut",
    "FacilityLocation",
    "GaussianInformation",
    "LogDet",
    "Modular",
    "PairwiseGraph",
    "PnPotts",
    "RobustPn",
    "SetFunction",
    "SubmodularFunction",
    "SubmodularityReport",
    "Sum",
    "check_submodular",
    "grid_cuts",
]
