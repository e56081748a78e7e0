"""Registries of the samplers and of the estimators of log Z; a new method adds one line."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from logsuper._base import Bits, Seed, as_generator, check_choice
from logsuper.bounds import Bound, check_options
from logsuper.functions import SubmodularFunction, check_function
from logsuper.sampling._budget import BUDGET, Callback, Meter, check_count


@dataclasses.dataclass(frozen=True)
class Sampler:
    """A sampler: a module with ``sample(f, count, meter, *, seed, n_jobs, ...) -> ndarray``.

    Attributes
    ----------
    name : str
    module : str
        Name of the module in this package.
    exact : bool
        Whether samples are independent and follow the distribution of the model exactly.
    valid_for : str
        Functions that it applies to.
    """

    name: str
    module: str
    exact: bool
    valid_for: str


_ANY = "any function"

SAMPLERS: dict[str, Sampler] = {
    name: Sampler(name, module, exact, valid_for)
    for name, module, exact, valid_for in [
        ("cftp", "_cftp", True, _ANY),
        ("ancestral", "_ancestral", True, "pairwise functions without cycles"),
        ("rejection", "_rejection", True, "any function that is weakly coupled or small"),
        ("gibbs", "_gibbs", False, _ANY),
        ("swendsen_wang", "_swendsen_wang", False, "pairwise functions"),
        ("perturb", "_perturb", False, _ANY),
    ]
}

# Name and module; each has ``log_partition(f, meter, *, seed, n_jobs, ...) -> Bound``.
ESTIMATORS: dict[str, str] = {"ti": "_integration", "ais": "_annealing"}


def sample(
    f: SubmodularFunction,
    n_samples: int,
    method: str = "cftp",
    *,
    seed: Seed = None,
    budget: float = BUDGET,
    callback: Callback | None = None,
    **options: Any,
) -> Bits:
    r"""Draw samples of :math:`p(x)\propto e^{-f(x)}` by a named method.

    Parameters
    ----------
    f : SubmodularFunction
    n_samples : int
    method : {"cftp", "ancestral", "rejection", "gibbs", "swendsen_wang", "perturb"}
        The first three are exact.
    seed : int, Generator or None
        The same seed gives the same samples for any number of threads; a Generator advances.
    budget : float, default 1e13
        Maximum number of elementary operations, about one nanosecond each. It counts work, not
        time. A call that is known to need more is refused before any work; coupling from the past
        stops before it would exceed the budget.
    callback : callable, optional
        Called with a `Progress` at least once per second, and at the end; an exception that it
        raises ends the run.
    **options
        Options of the method: ``n_jobs``, ``max_iter``, ``burn_in``, ...

    Returns
    -------
    ndarray of shape (n_samples, n), uint8

    Raises
    ------
    TooLarge
        If the minimum number of operations of the method exceeds the budget.
    NotCoalesced
        If "cftp" does not finish within its budget and `max_iter`.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.sampling import sample
    >>> sample(ls.Modular([-30.0, 30.0]), 3, seed=0)
    array([[1, 0],
           [1, 0],
           [1, 0]], dtype=uint8)
    """
    meter = Meter(method, budget, callback)
    samples = draw(f, n_samples, method, meter, {"seed": as_generator(seed), **options})
    meter.report()
    return samples


def draw(
    f: SubmodularFunction, count: int, method: str, meter: Meter, options: dict[str, Any]
) -> Bits:
    """Draw samples by a named method, counting its operations on an existing meter."""
    names = {name: entry.module for name, entry in SAMPLERS.items()}
    function = _find(names, method, "sample", options)
    total = check_count(count)
    meter.count = meter.count or total
    if check_function(f).n == 0:
        return np.empty((total, 0), dtype=np.uint8)
    samples: Bits = function(f, total, meter, **options)
    return samples


def log_partition(
    f: SubmodularFunction,
    method: str,
    *,
    budget: float = BUDGET,
    callback: Callback | None = None,
    **options: Any,
) -> Bound:
    """Estimate log sum_x exp(-f(x)) by sampling.

    Parameters
    ----------
    f : SubmodularFunction
    method : {"ti", "ais"}
        Thermodynamic integration, or annealed importance sampling in both directions.
    budget, callback
        As in `sample`, for all samples together.
    **options
        Options of the method.

    Returns
    -------
    Bound

    Raises
    ------
    TooLarge, NotCoalesced
        As in `sample`.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.sampling import log_partition
    >>> found = log_partition(ls.Cut(2, [(0, 1)], 1.0), "ti", seed=0)
    >>> low, high = found.interval
    >>> low < 1.0064 < high  # log 2 + log(1 + 1/e)
    True
    """
    function = _find(ESTIMATORS, method, "log_partition", options)
    meter = Meter(method, budget, callback)
    if check_function(f).n == 0:
        return Bound(0.0, "exact", method, certified=True)
    with np.errstate(over="ignore", invalid="ignore"):
        bound: Bound = function(f, meter, **options)
    meter.report()
    if not np.isfinite([bound.value, bound.stderr or 0.0, *(bound.interval or ())]).all():
        raise ValueError(f"{method}: the squared energies of {f!r} overflow; rescale f")
    return bound


def _find(
    modules: dict[str, str], method: str, what: str, options: Collection[str]
) -> Callable[..., Any]:
    """Return the function of a method; errors for unknown names and options list the valid ones."""
    check_choice(method, "method", modules)
    module = importlib.import_module(f"logsuper.sampling.{modules[method]}")
    function: Callable[..., Any] = getattr(module, what)
    check_options(function, method, options, ("budget", "callback"))
    return function
