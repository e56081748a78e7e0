"""The one list of learners: a new one is a module and a line here.

A line says what a learner needs and gives, so that callers need not know its name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from importlib import import_module

from logsuper.functions import SubmodularFunction
from logsuper.learning._engines import Exact
from logsuper.learning._examples import Examples
from logsuper.learning._layout import Layout
from logsuper.learning._learned import Learned
from logsuper.learning._objective import Penalty
from logsuper.learning._resample import is_pairwise


@dataclasses.dataclass(frozen=True)
class Learner:
    """A way to learn, and what it needs and gives.

    Attributes
    ----------
    name : str
        The name of the function.
    module : str
        Its module, relative to this room.
    labels : bool
        Whether it learns from labels; else from observations alone.
    partial : bool
        Whether some labels may be unknown.
    pairwise : bool
        Whether it is at its best for pairwise functions only.
    latent : bool
        Whether it models the observations: their filter and their weight are then not learned.
    decode : {"mean", "map"}
        What its parameters are made for: probabilities, or the most probable mask.
    marginals : {"logistic", "auto"}
        The inference that its parameters belong to: the logistic bound, or exact where affordable.
    errors : bool
        Whether it takes the standard error of the rate of flips, ``rate_stderr``.
    costs : bool
        Whether it learns with the costs of both kinds of errors, ``cost``.
    beside : str or None
        The default in its place beside a classifier of the surroundings.
    alpha, modular, beta : float
        Inverse variances of the Gaussian prior by default: on the weights of the functions and of
        the observations, on the modular term, and on the filter. Without the first, features that
        always agree would have an infinite weight.

    Examples
    --------
    >>> from logsuper.learning import LEARNERS
    >>> [name for name, learner in LEARNERS.items() if not learner.labels]
    ['resample', 'moments', 'latent']
    """

    name: str
    module: str
    labels: bool = True
    partial: bool = True
    pairwise: bool = False
    latent: bool = False
    decode: str = "mean"
    marginals: str = "logistic"
    errors: bool = False
    costs: bool = False
    beside: str | None = None
    alpha: float = 0.1
    modular: float = 3.0
    beta: float = 30.0

    @property
    def learn(self) -> Callable[..., Learned]:
        """``learn(examples, penalty, *, start, seed, n_jobs, callback, ...) -> Learned``."""
        module = import_module(self.module, "logsuper.learning")
        found: Callable[..., Learned] = getattr(module, self.name)
        return found

    def penalty(self, layout: Layout, count: int) -> Penalty:
        """Return the default regulariser for `count` examples, which share one prior."""
        alpha = self.alpha / count
        return Penalty.of(layout, alpha, self.modular / count, self.beta / count, scale=alpha)


LEARNERS: dict[str, Learner] = {
    learner.name: learner
    for learner in [
        Learner("exact", "._exact", marginals="auto"),
        Learner("logistic", "._descent"),
        Learner("saa", "._frank_wolfe", partial=False),
        Learner("pseudo", "._pseudo", partial=False, marginals="auto"),
        Learner("lfield", "._lfield", marginals="auto"),
        Learner(
            "max_margin",
            "._max_margin",
            partial=False,
            decode="map",
            costs=True,
            alpha=1,
            modular=10,
            beta=1e3,
        ),
        Learner("marginal", "._marginal", costs=True),
        # a classifier has not seen what is drawn from a field, and is trusted too little
        Learner("resample", "._resample", labels=False, pairwise=True, beside="moments"),
        # estimated statistics are noisy, and can leave the polytope of those that a model can have
        Learner(
            "moments",
            "._moments",
            labels=False,
            pairwise=True,
            errors=True,
            alpha=10.0,
            modular=30.0,
        ),
        Learner("latent", "._latent", labels=False, latent=True, alpha=1.0),
    ]
}

# The first of them that suits is the default.
_DEFAULTS = ("logistic", "resample", "latent")


def choose_learner(labelled: bool, functions: Iterable[SubmodularFunction]) -> Learner:
    """Return the default learner, with labels or without.

    Parameters
    ----------
    labelled : bool
    functions : iterable of SubmodularFunction

    Returns
    -------
    Learner

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import choose_learner
    >>> choose_learner(False, ls.grid_cuts((8, 8))).name
    'resample'
    """
    defaults = (LEARNERS[name] for name in _DEFAULTS)
    suited = (learner for learner in defaults if learner.labels == labelled)
    return next(a for a in suited if not a.pairwise or is_pairwise(functions))


def choose_exact(examples: Examples) -> Learner:
    """Return the learner of exact likelihood where that is affordable, else of its bound.

    Parameters
    ----------
    examples : Examples
        All of one shape.

    Returns
    -------
    Learner

    Examples
    --------
    >>> import numpy as np
    >>> import logsuper as ls
    >>> from logsuper.learning import choose_exact, make_examples
    >>> choose_exact(make_examples([ls.Cut(3, [(0, 1)])], labels=np.eye(3))).name
    'exact'
    """
    return LEARNERS["exact" if Exact().applies(examples) else "logistic"]
