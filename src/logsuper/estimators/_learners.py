"""The learners that estimators choose from: where each lives, and what it needs."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping

from logsuper._base import check_number
from logsuper.learning import Layout, Learned, Penalty

__all__ = ["LEARNERS", "find_penalty"]

_KINDS = {"alpha": "alpha", "modular": "modular", "filter": "beta", "scale": "scale"}


@dataclasses.dataclass(frozen=True)
class Learner:
    """A line of the table.

    Attributes
    ----------
    home : str
        The module of `logsuper.learning` with the function of the learner's name.
    cap : str
        What it calls the most iterations that it may take.
    prior : float
        Inverse variance of the Gaussian prior on the modular term, by default.
    coupling : float
        The same for the weights of the functions, and of the observations. Without it, features
        that always agree would have an infinite weight.
    filter : float
        The same for the coefficients of the filter.
    supervised : bool
        Whether it learns from labels; else from observations alone.
    exact : bool
        Whether what it learns belongs to exact inference rather than to the logistic bound.
    """

    home: str
    cap: str
    prior: float = 3.0
    coupling: float = 0.1
    filter: float = 30.0
    supervised: bool = True
    exact: bool = False

    def load(self, name: str) -> Callable[..., Learned]:
        """Return the function."""
        module = importlib.import_module(f"logsuper.learning.{self.home}")
        learn: Callable[..., Learned] = getattr(module, name)
        return learn


LEARNERS: dict[str, Learner] = {
    "logistic": Learner("_descent", "max_steps"),
    "saa": Learner("_frank_wolfe", "max_rounds"),
    "exact": Learner("_exact", "max_iterations", exact=True),
    "pseudo": Learner("_pseudo", "max_iterations", exact=True),
    "lfield": Learner("_lfield", "max_iterations", exact=True),
    "max_margin": Learner("_max_margin", "max_rounds", prior=10.0, coupling=1.0, filter=1000.0),
    "resample": Learner("_resample", "max_steps", supervised=False),
    # estimated statistics are noisy, and can leave the polytope of what a model can have
    "moments": Learner("_moments", "max_steps", prior=30.0, coupling=10.0, supervised=False),
    "latent": Learner("_latent", "max_iterations", coupling=1.0, supervised=False),
}


def find_penalty(
    penalty: float | Mapping[str, float] | None, name: str, layout: Layout, count: int
) -> Penalty:
    """Return the regulariser that was asked for, or the learner's own for so many examples."""
    if penalty is None:
        learner = LEARNERS[name]
        # a prior weighs the less on an example the more of them there are
        return Penalty.of(
            layout,
            alpha=learner.coupling / count,
            modular=learner.prior / count,
            beta=learner.filter / count,
            scale=learner.coupling / count,
        )
    if not isinstance(penalty, Mapping):
        weight = check_number(penalty, "penalty")
        penalty = dict.fromkeys(_KINDS, weight)
    for kind, weight in penalty.items():
        if kind not in _KINDS:
            raise ValueError(f"penalty has the key {kind!r}; it may have {', '.join(_KINDS)}")
        if check_number(weight, f"penalty[{kind!r}]") < 0:
            raise ValueError(f"penalty of {kind} = {weight:g} must be at least 0")
    return Penalty.of(layout, **{_KINDS[kind]: weight for kind, weight in penalty.items()})
