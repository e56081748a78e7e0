"""The public names of logsuper and the rooms they live in: one line a name."""

from logsuper import datasets as datasets
from logsuper import functions as functions
from logsuper import solvers as solvers
from logsuper._warnings import ConvergenceWarning as ConvergenceWarning
from logsuper.datasets import make_silhouettes as make_silhouettes
from logsuper.functions import ConcaveCardinality as ConcaveCardinality
from logsuper.functions import ConcaveOfModular as ConcaveOfModular
from logsuper.functions import Coverage as Coverage
from logsuper.functions import Cut as Cut
from logsuper.functions import FacilityLocation as FacilityLocation
from logsuper.functions import GaussianInformation as GaussianInformation
from logsuper.functions import LogDet as LogDet
from logsuper.functions import Modular as Modular
from logsuper.functions import PairwiseGraph as PairwiseGraph
from logsuper.functions import PnPotts as PnPotts
from logsuper.functions import RobustPn as RobustPn
from logsuper.functions import SetFunction as SetFunction
from logsuper.functions import SubmodularFunction as SubmodularFunction
from logsuper.functions import SubmodularityReport as SubmodularityReport
from logsuper.functions import Sum as Sum
from logsuper.functions import check_submodular as check_submodular
from logsuper.functions import grid_cuts as grid_cuts
from logsuper.solvers import MinNormPoint as MinNormPoint
from logsuper.solvers import Perturbed as Perturbed
from logsuper.solvers import Prepared as Prepared
from logsuper.solvers import maximize as maximize
from logsuper.solvers import min_norm_point as min_norm_point
from logsuper.solvers import prepare as prepare

__version__: str
