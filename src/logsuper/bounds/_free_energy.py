r"""The Bethe free energy of a pairwise function, with edge probabilities.

With locally consistent pair tables :math:`\tau_e` of marginals q,

.. math:: F_\rho(q)=\max_\tau\;t^\top q-\sum_e w_e(\tau_{10}+\tau_{01})
   +\sum_i\Big(1-\sum_{e\ni i}\rho_e\Big)H(q_i)+\sum_e\rho_eH(\tau_e).

:math:`\rho=1` is the Bethe approximation; for probabilities of spanning trees it is concave, and
its maximum the tree-reweighted bound. The best table of an edge has a closed form (Welling and Teh,
"Belief optimization for binary networks", UAI 2001).
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from logsuper._base import EPS, FloatArray, add_up
from logsuper.bounds._margins import at_most
from logsuper.structures import Pairwise

# Log-odds are clipped to this magnitude, which changes the free energy by less than rounding.
LARGEST_LOGIT = 500.0
# Off-diagonal entries below this differ by rounding only.
_SYMMETRIC = 1e-150


class FreeEnergy:
    """The free energy of one model as a function of the log-odds of its marginals."""

    def __init__(self, model: Pairwise, rho: FloatArray) -> None:
        self.model = model
        self.rho = rho
        i, j = model.edges.T
        self.excess = 1.0 - add_up(i, rho, model.n) - add_up(j, rho, model.n)

    def __call__(self, logits: FloatArray) -> tuple[float, FloatArray]:
        """Return the free energy at the log-odds (n,), and its gradient in the marginals."""
        model, rho = self.model, self.rho
        i, j = model.edges.T
        logits = np.clip(logits, -LARGEST_LOGIT, LARGEST_LOGIT)
        on, off = _log_expit(logits), _log_expit(-logits)
        q = np.exp(on)
        t11, t00, t10, t01 = tables = self._log_tables(logits, on, off)
        p11, p00, p10, p01 = np.exp(tables)
        pairs = -(p11 * t11 + p00 * t00 + p10 * t10 + p01 * t01)
        alone = -(q * on + np.exp(off) * off)
        value = (
            (model.t * q).sum()
            - (model.weights * (p10 + p01)).sum()
            + (self.excess * alone).sum()
            + (rho * pairs).sum()
        )
        # the odds ratio of an optimal table is exp(2 w / rho), so that w cancels in the gradient
        same, apart = rho * (t00 - t11) / 2, rho * (t01 - t10) / 2
        gradient = model.t - self.excess * logits
        gradient += add_up(i, same + apart, model.n) + add_up(j, same - apart, model.n)
        return float(value), gradient

    def certified(self, logits: FloatArray) -> float:
        r"""Return a lower bound on the free energy at the log-odds, for :math:`\rho=1`.

        With r a bound on the relative errors of :math:`q_i` and :math:`1-q_i`, the logarithms of
        the diagonal of a table have errors of O(r). Its other entries have relative errors of O(r)
        and, where two probabilities nearly cancel, errors of O(r) times the smaller of :math:`q_i`
        and :math:`1-q_i`.
        """
        model = self.model
        i, j = model.edges.T
        logits = np.clip(logits, -LARGEST_LOGIT, LARGEST_LOGIT)
        on, off = _log_expit(logits), _log_expit(-logits)
        q, p = np.exp(on), np.exp(off)
        less = np.minimum(q, p)
        r = 8.0 * EPS * (1.0 + np.abs(on) + np.abs(off))
        logs = self._log_tables(logits, on, off)
        tables = np.exp(logs)
        same, apart = tables[:2], tables[2:]
        alone = -(q * on + p * off)
        pairs = -(tables * logs)
        cut = -model.weights * apart.sum(axis=0)
        field = np.where(q > 0.5, -model.t, model.t) * less

        rounded = (less * r * np.abs(model.t)).sum() + 4.0 * EPS * np.abs(field).sum()
        rounded += (np.abs(self.excess) * r * (alone + 1.0)).sum()
        both = 16.0 * (r[i] + r[j])
        rounded += (both * same * (2.0 + np.abs(logs[:2]))).sum()
        off_by = both * (apart + less[i] + less[j])
        steep = 2.0 + np.abs(np.log(np.maximum(off_by, 1e-300)))
        rounded += (off_by * (model.weights + steep)).sum() - model.relative * cut.sum()
        return at_most(
            [model.t[q > 0.5], field, self.excess * alone, pairs, cut],
            float(rounded) + model.error,
        )

    def in_logits(self, logits: FloatArray) -> tuple[float, FloatArray]:
        """Return minus the free energy and its gradient in the log-odds, for a minimiser."""
        value, gradient = self(logits)
        return -value, -gradient * expit(logits) * expit(-logits)

    def messages(self, logits: FloatArray) -> FloatArray:
        """Return the messages of the best tables, in both directions of each edge."""
        i, j = self.model.edges.T
        logits = np.clip(logits, -LARGEST_LOGIT, LARGEST_LOGIT)
        _, t00, t10, t01 = self._log_tables(logits, _log_expit(logits), _log_expit(-logits))
        k = self.model.weights / self.rho
        # the log-odds of i without the message of j are log t10 - log t00 + k
        return np.concatenate([logits[j] - (t01 - t00 + k), logits[i] - (t10 - t00 + k)])

    def _log_tables(self, logits: FloatArray, on: FloatArray, off: FloatArray) -> FloatArray:
        r"""Return the logarithms (4, E) of the best tables: 11, 00, 10 and 01.

        With :math:`\epsilon=e^{-2w/\rho}`, :math:`D^2=\epsilon^2+2\epsilon(1-\epsilon)(q_i\bar q_j+
        \bar q_iq_j)+(1-\epsilon)^2(q_i-q_j)^2` is the discriminant of the quadratic equation
        of every entry, and each has a form without cancellation.
        """
        i, j = self.model.edges.T
        strength = 2.0 * self.model.weights / self.rho
        eps, rest = np.exp(-strength), -np.expm1(-strength)
        q, p = np.exp(on), np.exp(off)
        qi, qj, pi, pj = q[i], q[j], p[i], p[j]
        apart = np.abs(np.where((qi > 0.5) & (qj > 0.5), pi - pj, qj - qi))
        root = np.hypot(
            np.exp(-strength / 2) * np.sqrt(eps + 2.0 * rest * (qi * pj + qj * pi)), rest * apart
        )
        t11 = np.log(2.0) + on[i] + on[j] - np.log(eps + rest * (qi + qj) + root)
        t00 = np.log(2.0) + off[i] + off[j] - np.log(eps + rest * (pi + pj) + root)
        product = t11 + t00 - strength  # log t10 + log t01

        # the larger off-diagonal entry belongs to the element that is more likely to be on
        rising = logits[j] >= logits[i]
        linear = eps - rest * apart
        with np.errstate(divide="ignore", invalid="ignore"):
            larger = np.where(
                linear < 0,
                (root - linear) / (2.0 * rest),
                2.0 * eps * np.where(rising, qj * pi, qi * pj) / (linear + root),
            )
            larger = np.where(larger > _SYMMETRIC, np.log(larger), product / 2)
        smaller = product - larger
        t10, t01 = np.where(rising, smaller, larger), np.where(rising, larger, smaller)
        return np.stack([t11, t00, t10, t01])


def _log_expit(v: FloatArray) -> FloatArray:
    """Return the logarithm of the logistic function."""
    return -np.logaddexp(0.0, -v)
