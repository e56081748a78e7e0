"""The log-partition function from below, from above and exactly: one function per method.

``m.log_partition("lfield", ...)`` calls ``lfield(m, ...)``, and similarly for all names of the
registry of methods. Each is documented in its module.
"""

from collections.abc import Callable

# for other rooms
from logsuper.bounds._bracket import bracket as bracket
from logsuper.bounds._choose import Choice as Choice
from logsuper.bounds._choose import choose as choose
from logsuper.bounds._choose import need_pairs as need_pairs
from logsuper.bounds._draws import frequency_error as frequency_error
from logsuper.bounds._draws import hardly_any as hardly_any
from logsuper.bounds._draws import is_modular as is_modular
from logsuper.bounds._draws import latin_hypercube as latin_hypercube
from logsuper.bounds._draws import logit as logit
from logsuper.bounds._draws import rare as rare
from logsuper.bounds._draws import unseen as unseen
from logsuper.bounds._infer import infer as infer
from logsuper.bounds._infer import strip_widths as strip_widths
from logsuper.bounds._infer_marginals import infer_marginals as infer_marginals
from logsuper.bounds._infer_marginals import weighted_sum as weighted_sum
from logsuper.bounds._methods import METHODS as METHODS
from logsuper.bounds._methods import as_function_of_model
from logsuper.bounds._methods import check_options as check_options
from logsuper.bounds._methods import log_partition as log_partition
from logsuper.bounds._methods import marginals as marginals
from logsuper.bounds._needs import NotApplicable, TooLarge
from logsuper.bounds._needs import need_pairwise as need_pairwise
from logsuper.bounds._phases import Widths as Widths
from logsuper.bounds._results import Bound, Bracket, Marginals
from logsuper.bounds._tiles import marginals_tiles

__all__ = [
    "Bound",
    "Bracket",
    "Marginals",
    "NotApplicable",
    "TooLarge",
    "marginals_tiles",
    *METHODS,
]


def __getattr__(name: str) -> Callable[..., Bound]:
    """Return a method of the registry as a function."""
    if name not in METHODS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    function = globals()[name] = as_function_of_model(name)
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *METHODS})
