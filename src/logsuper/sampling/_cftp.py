"""Coupling from the past: exact samples of every log-supermodular model.

J. G. Propp and D. B. Wilson, "Exact sampling with coupled Markov chains and applications to
statistical mechanics", Random Structures and Algorithms 9, 1996.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from logsuper._base import FloatArray, Seed, as_key, count_threads, refuse
from logsuper.functions import SubmodularFunction, check_function
from logsuper.sampling._errors import NotCoalesced
from logsuper.sampling._inputs import Bits, check_count
from logsuper.sampling._scan import Problems, Scan, make_scan
from logsuper.solvers import check_theta

# From here on a sample is hard, and one goes ahead alone: if it fails, the others need not try.
_HARD = 256
# Elements of all samples that are drawn at once.
_HELD = 1 << 25


def sample(
    f: SubmodularFunction,
    count: int,
    *,
    seed: Seed = None,
    n_jobs: int | None = None,
    max_sweeps: int = 2**13,
) -> Bits:
    r"""Draw independent exact samples of :math:`p(x)\propto e^{-f(x)}`.

    Two chains, from all 0 and from all 1, see the same noise and enclose every other. They start
    T = 1, 2, 4, ... sweeps in the past, always with the same noise at the same time; once they
    meet by the present, the state in which they meet is an exact sample.

    Parameters
    ----------
    f : SubmodularFunction
        Grids take the fastest path, then other pairwise functions; all others cost n evaluations
        a sweep.
    count : int
    seed : int, Generator or None
    n_jobs : int, optional
        Threads over the samples, for pairwise functions.
    max_sweeps : int
        How far to go into the past before giving up.

    Returns
    -------
    ndarray of shape (count, n), uint8

    Raises
    ------
    NotCoalesced
        If one sample needs more sweeps. Dropping it would bias the others.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.sampling import sample
    >>> X = sample(ls.LogDet([[1.0, 0.5], [0.5, 1.0]]), 4000, "cftp", seed=0)
    >>> both = X.all(axis=1).mean()  # 4/3 of (1 + 1 + 1 + 4/3)
    >>> bool(abs(both - 4 / 13) < 0.03)
    True
    """
    total, cap = check_count(count), check_count(max_sweeps, "max_sweeps", 1)
    scan = make_scan(check_function(f))
    return couple(scan, scan.modular[None], as_key(seed), total, cap, count_threads(n_jobs))


def sample_fields(
    f: SubmodularFunction,
    theta: ArrayLike,
    *,
    seed: Seed = None,
    n_jobs: int | None = None,
    max_sweeps: int = 2**13,
) -> Bits:
    r"""Draw one exact sample of :math:`p(x)\propto e^{\theta_m^\top x-f(x)}` for each field.

    Parameters
    ----------
    f : SubmodularFunction
    theta : array-like of shape (M, n)
        Finite fields: the posteriors of many images under one prior, for instance.
    seed, n_jobs, max_sweeps
        As for the sampler "cftp".

    Returns
    -------
    ndarray of shape (M, n), uint8

    Examples
    --------
    >>> import numpy as np
    >>> import logsuper as ls
    >>> from logsuper.sampling import sample_fields
    >>> fh, fv = ls.grid_cuts((2, 3))
    >>> theta = np.array([[50.0] * 6, [-50.0] * 6])
    >>> sample_fields(fh + fv, theta, seed=0)
    array([[1, 1, 1, 1, 1, 1],
           [0, 0, 0, 0, 0, 0]], dtype=uint8)
    """
    fields, _ = check_theta(theta, check_function(f).n)
    refuse(np.isinf(fields), fields, "theta", "fix an element with f.condition instead")
    cap = check_count(max_sweeps, "max_sweeps", 1)
    threads = count_threads(n_jobs)
    key = as_key(seed)
    if f.n == 0:
        return np.empty(fields.shape, dtype=np.uint8)
    scan = make_scan(f)
    return couple(scan, fields + scan.modular, key, len(fields), cap, threads)


def couple(
    scan: Scan, theta: FloatArray, key: int, count: int, max_sweeps: int, threads: int
) -> Bits:
    """Return one exact sample for each problem 0, ..., count - 1, with one field or as many."""
    out = np.empty((count, scan.n), dtype=np.uint8)
    step = max(threads, _HELD // scan.n)
    for first in range(0, count, step):
        problems = np.arange(first, min(count, first + step), dtype=np.uint64)
        _finish(scan, theta, key, problems, 1, max_sweeps, threads, out)
    return out


def _finish(
    scan: Scan,
    theta: FloatArray,
    key: int,
    problems: Problems,
    sweeps: int,
    max_sweeps: int,
    threads: int,
    out: Bits,
) -> None:
    """Write the samples of the given problems, starting that many sweeps in the past."""
    while len(problems):
        if sweeps == _HARD and len(problems) > 1:
            _finish(scan, theta, key, problems[:1], sweeps, max_sweeps, threads, out)
            problems = problems[1:]
        sweeps = min(sweeps, max_sweeps)
        states = bracket(scan, theta, key, problems, sweeps, threads)
        differing = (states[:, 0] != states[:, 1]).sum(axis=1)
        out[problems[differing == 0]] = states[differing == 0, 0]
        problems = problems[differing > 0]
        if len(problems) and sweeps == max_sweeps:
            raise NotCoalesced(sweeps, int(differing.max()), scan.n)
        sweeps *= 2


def bracket(
    scan: Scan, theta: FloatArray, key: int, problems: Problems, sweeps: int, threads: int
) -> Bits:
    """Return what the chains from all 0 and from all 1 have become, shape (B, 2, n)."""
    states = np.empty((len(problems), 2, scan.n), dtype=np.uint8)
    states[:, 0], states[:, 1] = 0, 1
    field = theta if len(theta) == 1 else theta[problems]
    scan.run(states, field, key, problems, range(sweeps - 1, -1, -1), threads=threads)
    return states
