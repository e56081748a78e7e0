r"""Which numbers are learned, and where each sits in the vector of all parameters.

A model of a learner is :math:`f_\theta(x)=\sum_k\alpha_kf_k(x)-u_i^\top x` with the field of
example i linear in the parameters,

.. math:: u_i = t + \Phi_i\beta + w\,l_i,

where t is the modular term (one number per pixel, one for all, or none; one for all is 0 amid
gaps in the observations that features are made from, see `Examples.fields`), :math:`\Phi_i` the
features and :math:`l_i` the log-odds of what was observed. So
:math:`-f_\theta=\theta^\top\varphi_i(x)` with
:math:`\varphi_i(x)=(-f_1(x),\dots,-f_K(x),\,x,\,\Phi_i^\top x,\,l_i^\top x)`.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools

import numpy as np

from logsuper._base import FloatArray

LARGEST = 1e70
"""Largest statistic or penalty: learners multiply a few of them, and sum over pixels and images."""


@dataclasses.dataclass(frozen=True, eq=False)
class Parameters:
    r"""What a learner has found.

    Attributes
    ----------
    alpha : ndarray of shape (K,)
        Weights >= 0 of the functions.
    modular : ndarray of shape (n,), (1,) or (0,)
        The modular term t: one number per pixel, one for all, or none.
    beta : ndarray of shape (p,)
        Coefficients of the features.
    scale : float
        Factor w >= 0 on the log-odds of what was observed; 1 unless it was learned.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import Penalty, make_examples, pseudo
    >>> x = ls.make_silhouettes(3, shape=(16, 16), seed=0)
    >>> data = make_examples(ls.grid_cuts((16, 16)), labels=x, modular="shared")
    >>> found = pseudo(data, Penalty.of(data.layout, alpha=0.1, modular=0.1)).parameters
    >>> found.alpha.shape, found.modular.shape, found.scale
    ((2,), (1,), 1.0)
    """

    alpha: FloatArray
    modular: FloatArray
    beta: FloatArray
    scale: float = 1.0

    def scaled(self, factor: float) -> Parameters:
        """Return these with all but the scale multiplied: for decoding by the mode."""
        return Parameters(
            factor * self.alpha, factor * self.modular, factor * self.beta, self.scale
        )


@dataclasses.dataclass(frozen=True)
class Layout:
    """The order of the parameters in one vector: alpha, t, beta, w.

    Attributes
    ----------
    functions, modular, features : int
        Sizes of alpha, t and beta.
    scale : bool
        Whether w is learned; else it is 1 and not in the vector.
    judged : bool
        Whether the last feature is the log-odds of a judge. Like w, its coefficient is a weight of
        log-odds, and 1 by nature.

    Examples
    --------
    >>> from logsuper.learning import Layout
    >>> layout = Layout(functions=2, modular=1, scale=True)
    >>> layout.size, layout.fill(alpha=0.5)
    (4, array([0.5, 0.5, 0. , 1. ]))
    """

    functions: int
    modular: int
    features: int = 0
    scale: bool = False
    judged: bool = False

    @property
    def size(self) -> int:
        """Length of the vector."""
        return self.functions + self.modular + self.features + self.scale

    @functools.cached_property
    def blocks(self) -> dict[str, slice]:
        """The place of each kind of parameter, empty ones too."""
        sizes = (self.functions, self.modular, self.features, int(self.scale))
        ends = itertools.pairwise(itertools.accumulate(sizes, initial=0))
        names = ("alpha", "modular", "beta", "scale")
        return {name: slice(*pair) for name, pair in zip(names, ends, strict=True)}

    @functools.cached_property
    def lower(self) -> FloatArray:
        """The least value of each parameter: alpha and w must not be negative."""
        bound = np.full(self.size, -np.inf)
        bound[self.blocks["alpha"]] = 0.0
        bound[self.blocks["scale"]] = 0.0
        return bound

    def project(self, theta: FloatArray) -> FloatArray:
        """Return the nearest vector with alpha >= 0 and w >= 0."""
        return np.maximum(theta, self.lower)

    def unpack(self, theta: FloatArray) -> Parameters:
        """Return the parameters that a vector holds."""
        alpha, modular, beta = (
            theta[self.blocks[name]].copy() for name in ("alpha", "modular", "beta")
        )
        return Parameters(alpha, modular, beta, float(theta[-1]) if self.scale else 1.0)

    def pack(self, parameters: Parameters) -> FloatArray:
        """Return the vector of given parameters."""
        scale = [parameters.scale] if self.scale else []
        theta = np.concatenate([parameters.alpha, parameters.modular, parameters.beta, scale])
        if len(theta) != self.size:
            raise ValueError(f"parameters has {len(theta)} numbers, the layout {self.size}")
        return theta

    def fill(
        self, alpha: float = 0.0, modular: float = 0.0, beta: float = 0.0, scale: float = 1.0
    ) -> FloatArray:
        """Return the vector with one number for all parameters of a kind."""
        theta, values = np.empty(self.size), (alpha, modular, beta, scale)
        for where, value in zip(self.blocks.values(), values, strict=True):
            theta[where] = value
        if self.judged:
            theta[self.blocks["beta"].stop - 1] = scale
        return theta
