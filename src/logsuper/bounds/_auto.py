"""Which method suits a function: the best of those that are cheap."""

from __future__ import annotations

from logsuper.bounds import _exact
from logsuper.functions import SubmodularFunction
from logsuper.structures import image_of, pairwise_of

# Exact inference up to this many operations, some tenths of a second, is always worth it.
_CHEAP = 3e8


def marginal_method(f: SubmodularFunction) -> str:
    """Return the name of the method for marginals of f."""
    if _exact.operations(f) <= _CHEAP:
        return "exact"
    if image_of(f) is not None:
        return "strips"
    if pairwise_of(f) is not None:
        return "bethe"
    return "power"
