r"""How far stochastic subgradient descent goes at step h, and from where it starts.

All rules are :math:`\theta_j\leftarrow[\theta_j-c_jg_j/d_j]_+` with the subgradient g:

- "printed": one :math:`c` for all and :math:`d=\sqrt h`, the algorithm of section 4.2;
- "separate": a :math:`c_j` for each kind of parameter, :math:`d=\sqrt h`;
- "adaptive": :math:`d_j^2=h\,m_j` with :math:`m_j` the mean of all :math:`g_j^2` so far, and
  :math:`c_j` the unit of the parameter. Statistics of a whole image vary a hundred times as much as
  those of a pixel; here each parameter finds its own step. That is AdaGrad (J. Duchi, E. Hazan and
  Y. Singer, "Adaptive subgradient methods for online learning and stochastic optimization", JMLR
  12, 2011), except for the weights of the mean: step h has about the weight :math:`h^4`, so that
  the large gradients far from the optimum are forgotten.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from logsuper._base import FloatArray, check_choice
from logsuper.functions import SubmodularFunction
from logsuper.learning._examples import Examples, Group
from logsuper.learning._features import Dense, Judged

RULES = ("adaptive", "separate", "printed")

# The squared gradient of step h has about the weight h to this power.
_POWER = 4

# With the weight 1, a cut between neighbours in one direction changes a field by -2 to 2.
_RANGE = 4.0
# Sums over an image of D pixels move at this rate over D where steps are not adaptive.
_SUMS = 5.0


@dataclasses.dataclass(frozen=True, eq=False)
class Steps:
    """A rule and its constants.

    Attributes
    ----------
    scale : ndarray of shape (P,)
        The :math:`c_j`.
    adaptive : bool
    """

    scale: FloatArray
    adaptive: bool

    def average(self, squares: FloatArray, gradient: FloatArray, step: int) -> FloatArray:
        """Return the mean of the squared gradients with that of one more step."""
        return squares + (gradient**2 - squares) * ((_POWER + 1.0) / (step + _POWER))

    def length(self, gradient: FloatArray, squares: FloatArray, step: int) -> FloatArray:
        """Return what to subtract at a step, given the mean of the squares with this gradient."""
        if not self.adaptive:
            return self.scale * gradient / math.sqrt(step)
        root = np.sqrt(step * squares)
        root[root == 0.0] = 1.0  # all gradients were 0 so far, and so is the step
        return self.scale * gradient / root


def make_steps(rule: str, examples: Examples, rate: float) -> Steps:
    r"""Return a rule for the steps of `Descent`, :math:`\theta_j\leftarrow[\theta_j-c_jg_j/d_j]_+`.

    Parameters
    ----------
    rule : {"adaptive", "separate", "printed"}
        "printed" has one :math:`c` for all and :math:`d=\sqrt h` at step h, as the paper;
        "separate" has a :math:`c_j` for each kind of parameter; "adaptive" is AdaGrad that forgets,
        :math:`d_j^2=h` times the mean of the squared subgradients of late steps.
    examples : Examples
    rate : float
        Factor on all :math:`c_j`.

    Returns
    -------
    Steps
        The rule, with :math:`c` as ``scale``.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import make_examples, make_steps
    >>> x = ls.make_silhouettes(3, shape=(16, 16), seed=0)
    >>> data = make_examples(ls.grid_cuts((16, 16)), labels=x, modular="shared")
    >>> make_steps("adaptive", data, rate=1.0).scale.shape
    (3,)
    """
    check_choice(rule, "rule", RULES)
    if rule == "adaptive":
        return Steps(rate * units(examples), True)
    n = max(1, examples.largest)
    scale = np.full(examples.layout.size, rate * _SUMS / n)
    if rule == "separate" and examples.layout.modular > 1:
        scale[examples.layout.blocks["modular"]] = rate
    return Steps(scale, False)


def units(examples: Examples) -> FloatArray:
    """Return how much of each parameter changes the field of a pixel by about one.

    So rescaling a function, or a feature, rescales its parameter and nothing else.
    """
    layout, group = examples.layout, examples.groups[0]
    unit = np.ones(layout.size)
    unit[layout.blocks["alpha"]] = [
        1.0 / (_gain_range(f) * factor)
        for f, factor in zip(group.prepared.functions, _mean_factors(group), strict=True)
    ]
    if group.features is not None:
        size = np.ones(layout.features)
        if isinstance(group.features, Dense):
            values = group.features.values
            size = np.sqrt(np.einsum("bdp,bdp->p", values, values) / max(1, values[..., 0].size))
        if isinstance(group.features, Judged) and group.around is not None:
            size[-1] = np.sqrt(np.mean(group.features.said(group.around) ** 2))
        # the changes of many features add up, at random
        root = math.sqrt(layout.features)
        unit[layout.blocks["beta"]] = 1.0 / (np.where(size > 0.0, size, 1.0) * root)
    return unit


def half_a_unit(examples: Examples) -> FloatArray:
    """Return the default start: half a unit of each function, t = 0, beta = 0 and w = 1.

    Without any coupling, noise could not be separated from signal.
    """
    theta, where = examples.layout.fill(), examples.layout.blocks["alpha"]
    theta[where] = 0.5 * units(examples)[where]
    return theta


def _gain_range(f: SubmodularFunction) -> float:
    """Return how much f varies the field of an element, on average, as a share of `_RANGE`."""
    if not f.n:
        return 1.0
    first, last = f.gains(np.zeros(f.n)), f.gains(np.ones(f.n))
    spread = float(np.mean(first - last)) / _RANGE
    return spread if spread > 0.0 else float(np.mean(np.abs(first))) or 1.0


def _mean_factors(group: Group) -> FloatArray:
    """Return the mean factor on the edges of each function."""
    count = len(group.prepared.functions)
    if group.edge_weights is None or not group.edge_weights.size:
        return np.ones(count)
    axes = (0, 2) if group.edge_weights.ndim == 3 else None
    mean = np.broadcast_to(group.edge_weights.mean(axis=axes), count)
    return np.where(mean > 0.0, mean, 1.0)
