"""The log-partition function from below, from above and exactly; one module a method."""

# for other rooms
from logsuper.bounds._auto import marginal_method as marginal_method
from logsuper.bounds._bracket import bracket as bracket
from logsuper.bounds._cardinality import count_cost as count_cost
from logsuper.bounds._cardinality import count_marginals as count_marginals
from logsuper.bounds._cardinality import counted as counted
from logsuper.bounds._draws import frequency_error as frequency_error
from logsuper.bounds._draws import hardly_any as hardly_any
from logsuper.bounds._draws import is_modular as is_modular
from logsuper.bounds._draws import latin_hypercube as latin_hypercube
from logsuper.bounds._draws import logit as logit
from logsuper.bounds._draws import rare as rare
from logsuper.bounds._draws import unseen as unseen
from logsuper.bounds._elimination import eliminate as eliminate
from logsuper.bounds._elimination import elimination_cost as elimination_cost
from logsuper.bounds._elimination import pair_marginals as pair_marginals
from logsuper.bounds._errors import NotApplicable, TooLarge
from logsuper.bounds._methods import METHODS as METHODS
from logsuper.bounds._methods import check_options as check_options
from logsuper.bounds._methods import log_partition as log_partition
from logsuper.bounds._methods import marginals as marginals
from logsuper.bounds._needs import need_pairwise as need_pairwise
from logsuper.bounds._phases import warn_wide as warn_wide
from logsuper.bounds._results import Bound, Bracket, Marginals
from logsuper.bounds._strips import strips_gradient as strips_gradient
from logsuper.bounds._windows import chain_odds as chain_odds
from logsuper.bounds._windows import edge_fields as edge_fields

__all__ = ["Bound", "Bracket", "Marginals", "NotApplicable", "TooLarge"]
