"""The methods as functions: what ``m.log_partition(name, ...)`` calls, with documented options.

Each is documented beside its code. All take a `LogSupermodular`, whose constant is added, or a
`SubmodularFunction`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec

from logsuper.bounds import (
    _auto,
    _bethe,
    _cardinality,
    _elimination,
    _enumeration,
    _exact,
    _lfield,
    _logistic,
    _mean_field,
    _power,
    _strips,
    _superdifferential,
    _transfer,
    _trw,
)
from logsuper.bounds._methods import Model, log_partition
from logsuper.bounds._results import Bound
from logsuper.functions import SubmodularFunction

_Options = ParamSpec("_Options")


def _method(
    name: str, inner: Callable[Concatenate[SubmodularFunction, _Options], Bound]
) -> Callable[Concatenate[SubmodularFunction | Model, _Options], Bound]:
    """Return a method as a function that takes models too, empty ones and huge numbers."""

    @functools.wraps(inner)
    def bound(
        f: SubmodularFunction | Model, /, *none: _Options.args, **options: _Options.kwargs
    ) -> Bound:
        if none:
            raise TypeError(f"the options of {name} have to be given by their names")
        return log_partition(f, name, **options)

    bound.__name__ = bound.__qualname__ = name
    bound.__module__ = "logsuper.bounds"
    return bound


auto = _method("auto", _auto.log_partition)
exact = _method("exact", _exact.log_partition)
enumeration = _method("enumeration", _enumeration.log_partition)
elimination = _method("elimination", _elimination.log_partition)
transfer = _method("transfer", _transfer.log_partition)
cardinality = _method("cardinality", _cardinality.log_partition)
lfield = _method("lfield", _lfield.log_partition)
logistic = _method("logistic", _logistic.log_partition)
power = _method("power", _power.log_partition)
trw = _method("trw", _trw.log_partition)
superdifferential = _method("superdifferential", _superdifferential.log_partition)
mean_field = _method("mean_field", _mean_field.log_partition)
bethe = _method("bethe", _bethe.log_partition)
strips = _method("strips", _strips.log_partition)
