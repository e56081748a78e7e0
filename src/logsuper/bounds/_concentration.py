"""Concentration of the mean of perturbed maxima, for any sample size."""

from __future__ import annotations

import math

from scipy.optimize import minimize_scalar


def radius(n: int, samples: int, confidence: float) -> float:
    r"""Return r such that the mean of F over iid draws plus r exceeds its expectation.

    :math:`F(z)=V(z)-\mathbf 1^\top z/2` changes by at most half the change of a coordinate, and for
    logistic z

    .. math:: \mathbb E\,e^{\lambda(\mathbb EF-F)}
              \le\Bigl(\frac{\pi\lambda/2}{\sin(\pi\lambda/2)}\Bigr)^n,\qquad 0<\lambda<2,

    one coordinate after the other: the right side is the moment generating function of z/2. By
    Chernoff :math:`r=\min_\lambda(n\psi(\lambda)+\log(1/\delta)/M)/\lambda` with the logarithm
    :math:`n\psi` of the right side, M draws and :math:`\delta=1-` confidence. Any :math:`\lambda`
    gives a valid radius, so the minimisation need not be accurate.
    """
    spare = -math.log1p(-confidence) / samples

    def bound(scale: float) -> float:
        angle = math.pi * scale / 2.0
        return (n * math.log(angle / math.sin(angle)) + spare) / scale

    # psi is at least pi^2 lambda^2 / 24, so the minimum lies below this (or 1e-6, for a confidence
    # close to 0)
    most = max(1e-6, min(2.0 - 1e-9, math.sqrt(24.0 * spare / (n * math.pi**2))))
    best = minimize_scalar(bound, bounds=(most / 1e3, most), method="bounded")
    return float(bound(float(best.x)))
