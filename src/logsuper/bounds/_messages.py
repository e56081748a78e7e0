r"""Belief propagation and its tree-reweighted form, as one system of equations.

For :math:`f(x)=\sum_e w_e|x_i-x_j|-t^\top x` and edge probabilities :math:`\rho` (all 1 for plain
belief propagation), the messages are log-odds :math:`u_{i\to j}` with

.. math:: u_{i\to j}=m_{w/\rho}(b_i-u_{j\to i}),\qquad b_j=t_j+\sum_i\rho_{ij}u_{i\to j},\qquad
   m_k(\lambda)=\log\frac{e^{\lambda}+e^{-k}}{e^{\lambda-k}+1}.

Wainwright, Jaakkola and Willsky, "A new class of upper bounds on the log partition function",
IEEE Transactions on Information Theory 51, 2005.

The points that they find are judged by the Bethe free energy with edge probabilities: with locally
consistent pair tables :math:`\tau_e` of marginals q,

.. math:: F_\rho(q)=\max_\tau\;t^\top q-\sum_e w_e(\tau_{10}+\tau_{01})
   +\sum_i\Big(1-\sum_{e\ni i}\rho_e\Big)H(q_i)+\sum_e\rho_eH(\tau_e).

:math:`\rho=1` is the Bethe approximation; for probabilities of spanning trees it is concave, and
its maximum the tree-reweighted bound. The best table of an edge has a closed form (Welling and Teh,
"Belief optimization for binary networks", UAI 2001).
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.sparse import csc_array, csr_array
from scipy.sparse.linalg import splu
from scipy.special import expit

from logsuper._base import EPS, FloatArray, add_up, places_of
from logsuper.bounds._margins import at_most
from logsuper.solvers import kernels
from logsuper.structures import Pairwise

# Sum of the squared widths of the rows of the matrix above which a factorisation costs more than
# many sweeps; nanoseconds per squared width, and per edge (both directions) of a sweep.
_FACTORISABLE = 4e8
_PER_SQUARE, PER_SWEEP = 2.0, 90.0
# Upper limit on the slopes of the messages: strong couplings make the linear system singular.
_STEEPEST = 1.0 - 1e-10
_NEWTON_STEPS = 40  # default maximum
# Edge probabilities below 1 make the updates overshoot: damping factors of the compiled sweeps,
# which use each message at once, and of updates of all messages together.
_DAMPING, _DAMPING_AT_ONCE = 0.75, 0.5
# Log-odds of messages and beliefs whose exponentials, and products of these, fit in float64.
_LARGEST_ODDS = 300.0


class Effort(NamedTuple):
    """Limits on the phases of a search for messages; any effort gives a bound."""

    sweeps: int
    newton_steps: int
    steps: int  # of the outer search of a method


class Messages:
    """The equations of one model; a state `u` has one entry per direction of each edge.

    Direction e of the first E entries goes from ``edges[e, 0]`` to ``edges[e, 1]``, direction
    E + e back.
    """

    def __init__(self, model: Pairwise, rho: FloatArray, newton_steps: int = _NEWTON_STEPS) -> None:
        self.n = model.n
        self.newton_steps = newton_steps
        self.t, self.edges = model.t, model.edges
        both = np.concatenate([model.edges, model.edges[:, ::-1]])
        self.source, self.target = both[:, 0], both[:, 1]
        self.rho = np.tile(rho, 2)
        self.coupling = np.tile(model.weights / rho, 2)

    def beliefs(self, u: FloatArray) -> FloatArray:
        """Return the log-odds b (n,) of the elements."""
        return self.t + add_up(self.target, self.rho * u, self.n)

    def residual(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the residual of each message, and the log-odds that it is computed from."""
        cavity = self.beliefs(u)[self.source] - np.roll(u, len(u) // 2)
        k = self.coupling
        made = np.logaddexp(cavity, -k) - np.logaddexp(cavity - k, 0.0)
        return made - u, cavity

    def extremes(self, tol: float = 1e-11, sweeps: int = 200) -> list[tuple[FloatArray, float]]:
        """Return the least and the greatest fixed point for rho = 1, each with its residual.

        The equations are then monotone: sweeps from messages that are all at their minimum, and all
        at their maximum, converge to these points.
        """
        native = kernels()
        k = self.coupling
        largest = (np.abs(self.t) + add_up(self.target, k, self.n)).max()
        if native is None or largest > _LARGEST_ODDS:
            return [self.solve(sign * k, tol, sweeps) for sign in (-1.0, 1.0)]
        both, half = np.empty((2, len(k))), k[: len(k) // 2]
        most = self._most(sweeps)
        off = native.propagate_extremes(self.t, self.edges, half, most, tol, both)
        return [(u, off) if off <= tol else self._newton(u, tol) for u in both]

    def solve(
        self, u: FloatArray, tol: float = 1e-11, sweeps: int = 200
    ) -> tuple[FloatArray, float]:
        """Return messages near a fixed point, by sweeps and then Newton steps, and the residual."""
        u, worst = self._sweep(u, tol, self._most(sweeps))
        return (u, worst) if worst <= tol else self._newton(u, tol)

    def _most(self, sweeps: int) -> int:
        """Return the number of sweeps: more if no Newton steps follow."""
        return 10 * sweeps if self.newton_steps and not self.factorisable else sweeps

    def _sweep(self, u: FloatArray, tol: float, sweeps: int) -> tuple[FloatArray, float]:
        """Return messages after as many sweeps as needed or allowed, and the residual."""
        native = kernels()
        monotone = bool((self.rho == 1.0).all())
        count = len(u) // 2
        if native is not None:
            u = u.copy()
            k, rho = self.coupling[:count], self.rho[:count]
            damping = 1.0 if monotone else _DAMPING
            off = native.propagate_logs(self.t, self.edges, k, rho, damping, sweeps, tol, u)
            return u, off
        for _ in range(sweeps):
            off, _ = self.residual(u)
            if np.abs(off).max(initial=0.0) <= tol:
                break
            u = u + (1.0 if monotone else _DAMPING_AT_ONCE) * off
        return u, float(np.abs(self.residual(u)[0]).max(initial=0.0))

    @property
    def factorisable(self) -> bool:
        """Whether Newton steps are affordable."""
        return self.newton_steps > 0 and self._squares <= _FACTORISABLE

    @cached_property
    def _squares(self) -> float:
        """Sum of the squared widths of the rows in the order of Cuthill and McKee."""
        # slow to import
        from scipy.sparse.csgraph import reverse_cuthill_mckee

        links = (np.ones(len(self.source)), (self.source, self.target))
        graph = csr_array(links, shape=(self.n, self.n))
        place = places_of(reverse_cuthill_mckee(graph, symmetric_mode=True), self.n)
        first = np.arange(self.n)
        ends = place[self.source], place[self.target]
        np.minimum.at(first, np.maximum(*ends), np.minimum(*ends))
        return float(((np.arange(self.n) - first).astype(np.float64) ** 2).sum())

    @property
    def newton_operations(self) -> float:
        """Approximate nanoseconds of a Newton step."""
        return _PER_SQUARE * self._squares + 500.0 * len(self.source)

    def _newton(self, u: FloatArray, tol: float) -> tuple[FloatArray, float]:
        """Take Newton steps on all equations, if affordable, halved until the residual falls."""
        off, cavity = self.residual(u)
        for _ in range(self.newton_steps if self.factorisable else 0):
            if np.abs(off).max(initial=0.0) <= tol:
                break
            change = self._newton_step(off, cavity)
            for halvings in range(10):
                trial = u + 0.5**halvings * change
                left, onward = self.residual(trial)
                if np.abs(left).sum() < np.abs(off).sum():
                    u, off, cavity = trial, left, onward
                    break
            else:
                u = u + 0.5 * off
                off, cavity = self.residual(u)
        return u, float(np.abs(off).max(initial=0.0))

    def _newton_step(self, off: FloatArray, cavity: FloatArray) -> FloatArray:
        r"""Solve :math:`\Delta u_{i\to j}=r+m'(\Delta b_i-\Delta u_{j\to i})` for the messages.

        The two messages of an edge are eliminated, which leaves one equation per element.
        """
        n, source, target = self.n, self.source, self.target
        slope = expit(cavity + self.coupling) - expit(cavity - self.coupling)
        slope = np.minimum(slope, _STEEPEST)
        back = np.roll(slope, len(slope) // 2)
        share = 1.0 / ((1.0 - slope) + slope * (1.0 - back))
        own = share * (off - slope * np.roll(off, len(off) // 2))
        flow = self.rho * share * slope
        every = np.arange(n)
        diagonal = 1.0 + add_up(target, flow * back, n)
        matrix = csc_array(
            (
                np.concatenate([diagonal, -flow]),
                (np.concatenate([every, target]), np.concatenate([every, source])),
            ),
            shape=(n, n),
        )
        try:
            factors = splu(matrix, permc_spec="MMD_AT_PLUS_A")
        except RuntimeError:  # numerically singular: a damped sweep instead
            return 0.5 * off
        change = factors.solve(add_up(target, self.rho * own, n))
        step: FloatArray = own + share * slope * (change[source] - back * change[target])
        return step


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
