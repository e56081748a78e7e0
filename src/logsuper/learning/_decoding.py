"""Decoding of examples with learned parameters: modes, marginals, samples.

Each group is decoded in pieces of bounded memory, each by one call of a solver or sampler.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from logsuper._base import (
    FloatArray,
    IntArray,
    Seed,
    as_generator,
    as_key,
    as_vector,
    beat,
    check_choice,
    check_integer,
    check_number,
)
from logsuper.bounds import Widths, infer_marginals, weighted_sum
from logsuper.functions import Modular, SubmodularFunction
from logsuper.learning._examples import Examples, Group, Images, check_examples
from logsuper.learning._features import Dense
from logsuper.learning._tiled import TILED, can_be_tiled, modes_by_tiles
from logsuper.model import LogSupermodular
from logsuper.sampling import sample_fields

METHODS = ("auto", "logistic", "exact")

SAMPLES = 64
"""Perturbations per example by default; `python -m benchmarks.probabilities` compares others."""

FACTORS = tuple(round(0.05 * k, 2) for k in range(8, 27))
"""Factors that `best_factor` tries: .4, .45, ..., 1.3."""

"""An array with one entry per example, in the user's order; a list if shapes differ."""


def modes(
    examples: Examples, theta: ArrayLike, *, factor: float = 1.0, n_jobs: int | None = None
) -> Images:
    r"""Return the most probable x of every example.

    Parameters
    ----------
    examples : Examples
    theta : array-like of shape (P,)
        Parameters in the order of the layout.
    factor : float, default 1.0
        Multiplies all parameters except the weight w of the observations. Parameters by maximum
        likelihood smooth too much for this decoder; `best_factor` finds the factor.
    n_jobs : int, optional
        Threads.

    Returns
    -------
    ndarray of shape (N, ...), uint8, or list

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import make_examples, modes
    >>> data = make_examples(
    ...     ls.grid_cuts((2, 3)), observed=[[[1, 1, 0], [1, 0, 0]]], channel=ls.Flips(0.1),
    ...     modular="none",
    ... )
    >>> modes(data, [0.5, 0.5])
    array([[[1, 1, 0],
            [1, 0, 0]]], dtype=uint8)
    """
    check_examples(examples, n_jobs)
    theta = check_theta(examples, theta)
    if check_number(factor, "factor") < 0:
        raise ValueError(f"factor must be at least 0, got {factor:g}")
    layout = examples.layout
    theta = layout.pack(layout.unpack(theta).scaled(factor))
    alpha = theta[layout.blocks["alpha"]]

    def decode(group: Group, rows: IntArray, fields: FloatArray) -> NDArray[np.uint8]:
        factors = group.factors(rows)
        if group.prepared.n >= TILED and can_be_tiled(group.prepared.functions, alpha, factors):
            return modes_by_tiles(group, alpha, fields, factors, n_jobs)
        return group.prepared.maximize(fields, alpha, edge_weights=factors, n_jobs=n_jobs)[0]

    return _collect(examples, theta, decode)


def means(
    examples: Examples,
    theta: ArrayLike,
    *,
    method: str = "auto",
    n_samples: int = SAMPLES,
    seed: Seed = 0,
    n_jobs: int | None = None,
) -> Images:
    r"""Return the probabilities :math:`P(x_d=1)` of every example.

    Parameters
    ----------
    examples : Examples
    theta : array-like of shape (P,)
    method : {"auto", "logistic", "exact"}
        "logistic" is the distribution of the maximisers under logistic noise, which the paper
        calls mean-marginals and which the logistic learners match. It is estimated by the average
        probability of each pixel given the noise of all others (`Prepared.conditional_means`),
        which varies less than frequencies and is never 0 or 1. "exact" is exact inference where it
        is cheap and certified strips on other 4-neighbour grids, as in
        `LogSupermodular.marginals`; otherwise it raises `TooLarge`. "auto" is "exact" for each
        example where that is possible, else "logistic".
    n_samples : int, default 64
        Perturbations per example, for "logistic".
    seed : int, Generator or None
        Seed of the perturbations. Those of an example depend on its data, and not on the other
        examples.
    n_jobs : int, optional
        Threads; the result does not depend on them.

    Returns
    -------
    ndarray of shape (N, ...), float64, or list
        Strictly between 0 and 1, except for pixels that the channel determines.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import make_examples, means
    >>> data = make_examples(
    ...     [ls.Cut(3, [(0, 1), (1, 2)])], observed=[[1, float("nan"), 0]], channel=ls.Flips(0.1),
    ...     modular="none",
    ... )
    >>> means(data, [1.0]).round(3)
    array([[0.864, 0.5  , 0.136]])
    """
    check_examples(examples, n_jobs)
    theta = check_theta(examples, theta)
    check_choice(method, "method", METHODS)
    count = check_integer(n_samples, "n_samples", 1, 2**31)
    find = MeanFinder(theta[examples.layout.blocks["alpha"]], method, count, as_key(seed), n_jobs)

    def decode(group: Group, rows: IntArray, fields: FloatArray) -> FloatArray:
        # numbered by its data, so that an example has the same noise in any batch
        return find(group, rows, fields, _checksums(group, rows))

    found = _collect(examples, theta, decode)
    find.widths.warn(stacklevel=3)
    return found


@dataclasses.dataclass(eq=False)
class MeanFinder:
    """Computes the probabilities of pieces of examples, by one of `METHODS`.

    Attributes
    ----------
    alpha : ndarray of shape (K,)
    method : str
    count, key : int
        Number and seed of the perturbations.
    n_jobs : int or None
    widths : Widths
        Widths of all brackets by strips so far.
    """

    alpha: FloatArray
    method: str
    count: int
    key: int
    n_jobs: int | None
    widths: Widths = dataclasses.field(default_factory=Widths)

    def __call__(
        self, group: Group, rows: IntArray, fields: FloatArray, numbers: IntArray
    ) -> FloatArray:
        """Return the probabilities (B, n) of some examples; each has the noise of its number."""
        if self.method == "logistic":
            return self._perturb(group, rows, fields, numbers)
        found = infer_marginals(
            group.prepared, self.alpha, fields, group.factors(rows), n_jobs=self.n_jobs
        )
        self.widths.add(found.by_strips())
        means = _open(found.values, fields)
        left = np.flatnonzero(found.methods == "")
        if not len(left):
            return means
        if self.method == "auto":
            means[left] = self._perturb(group, rows[left], fields[left], numbers[left])
            return means
        for place in left:  # it takes long, or raises an error that says how long
            beat()
            model = make_model(group, int(rows[place]), self.alpha, fields[place])
            means[place] = _open(model.marginals("exact").values, fields[place])
        return means

    def _perturb(
        self, group: Group, rows: IntArray, fields: FloatArray, numbers: IntArray
    ) -> FloatArray:
        return group.prepared.conditional_means(
            fields,
            self.alpha,
            self.count,
            self.key,
            edge_weights=group.factors(rows),
            numbers=numbers,
            n_jobs=self.n_jobs,
        )


def samples(
    examples: Examples,
    theta: ArrayLike,
    n_samples: int = 1,
    *,
    seed: Seed = None,
    n_jobs: int | None = None,
    max_iter: int = 2**13,
    method: str = "cftp",
) -> Images:
    """Draw samples of x given the observations, by default exact ones.

    Parameters
    ----------
    examples : Examples
    theta : array-like of shape (P,)
    n_samples : int, default 1
        Samples per example.
    seed : int, Generator or None
    n_jobs : int, optional
        Threads; the result does not depend on them.
    max_iter : int, default 8192
        Maximum number of sweeps of "cftp"; after that `NotCoalesced` is raised.
    method : {"cftp", "perturb"}, default "cftp"
        "cftp", coupling from the past, is exact, and does not end where couplings are strong.
        "perturb" finds the most probable x under logistic noise on the field, one cut per sample
        for any coupling: "logistic" learns this distribution, and `means` are its means.

    Returns
    -------
    ndarray of shape (N, count, ...), uint8, or list

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import make_examples, samples
    >>> z = [[1, 1, 0], [0, 0, 0]]
    >>> data = make_examples(
    ...     [ls.Cut(3, [(0, 1), (1, 2)])], observed=z, channel=ls.Flips(1e-9), modular="none"
    ... )
    >>> samples(data, [1.0], 2, seed=0).tolist()
    [[[1, 1, 0], [1, 1, 0]], [[0, 0, 0], [0, 0, 0]]]
    """
    check_examples(examples, n_jobs)
    theta = check_theta(examples, theta)
    size = check_integer(n_samples, "n_samples", 1, 2**31)
    check_choice(method, "method", ("cftp", "perturb"))
    alpha = theta[examples.layout.blocks["alpha"]]
    rng = as_generator(seed)
    key = as_key(rng) if method == "perturb" else 0

    def perturb(group: Group, rows: IntArray, fields: FloatArray) -> NDArray[np.uint8]:
        out = group.prepared.perturb(
            fields,
            alpha,
            size,
            key,
            True,
            edge_weights=group.factors(rows),
            numbers=group.index[rows],
            n_jobs=n_jobs,
        )
        assert out.samples is not None
        return out.samples

    def draw(group: Group, rows: IntArray, fields: FloatArray) -> NDArray[np.uint8]:
        pieces = [np.arange(len(rows))]
        if group.edge_weights is not None:  # every example has a function of its own
            pieces = list(pieces[0][:, None])
        drawn = []
        for piece in pieces:
            f = make_function(group, int(rows[piece[0]]), alpha)
            repeated = np.repeat(_settled(f, fields[piece]), size, axis=0)
            drawn.append(sample_fields(f, repeated, seed=rng, n_jobs=n_jobs, max_iter=max_iter))
        return np.concatenate(drawn).reshape(len(rows), size, -1)

    return _collect(examples, theta, perturb if method == "perturb" else draw, copies=size)


def best_factor(
    examples: Examples,
    theta: ArrayLike,
    factors: Sequence[float] = FACTORS,
    *,
    n_jobs: int | None = None,
) -> float:
    """Return the factor for which `modes` have the fewest pixels that differ from the labels.

    Parameters
    ----------
    examples : Examples
        With labels; unlabelled pixels do not count.
    theta : array-like of shape (P,)
    factors : sequence of float
        Candidates; of equally good ones the nearest to 1 is returned.
    n_jobs : int, optional
        Threads.

    Returns
    -------
    float

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import best_factor, make_examples
    >>> x = ls.make_silhouettes(4, shape=(16, 16), seed=0)
    >>> z = ls.Flips(0.1).sample(x, seed=1)
    >>> data = make_examples(
    ...     ls.grid_cuts((16, 16)), labels=x, observed=z, channel=ls.Flips(0.1), modular="none"
    ... )
    >>> best_factor(data, [20.0, 20.0], [0.05, 0.1, 1.0])
    0.05
    """
    check_examples(examples, n_jobs)
    if not examples.has_labels:
        raise ValueError("labels are missing; the factor is chosen by comparing modes with labels")
    tried = as_vector(factors, "factors")
    if not len(tried):
        raise ValueError("factors is empty; give at least one")
    wrong = np.zeros(len(tried), dtype=np.int64)
    for group, rows in examples.pieces():  # not all masks at once
        own = group.take(rows, np.arange(len(rows)))
        part = dataclasses.replace(examples, groups=(own,))
        for k, factor in enumerate(tried):
            found = modes(part, theta, factor=float(factor), n_jobs=n_jobs)
            wrong[k] += sum(int(np.count_nonzero(x != y)) for x, y in part.compare(found))
    least = tried[wrong == wrong.min()]
    return float(least[np.argmin(np.abs(least - 1.0))])


# ------------------------------------------------------------------------------------------ inside


def check_theta(examples: Examples, theta: ArrayLike) -> FloatArray:
    """Return a valid vector of parameters for the layout of the examples."""
    vector = as_vector(theta, "theta")
    if len(vector) != examples.layout.size:
        raise ValueError(
            f"theta has {len(vector)} entries, but these examples have {examples.layout.size} "
            f"parameters: {examples.layout}"
        )
    if (vector < examples.layout.lower).any():
        place = int(np.argmax(vector < examples.layout.lower))
        raise ValueError(f"theta[{place}] = {vector[place]:g} is a weight and must be at least 0")
    return vector


def _collect(
    examples: Examples,
    theta: FloatArray,
    decode: Callable[[Group, IntArray, FloatArray], NDArray[Any]],
    copies: int = 1,
) -> Images:
    """Decode all pieces (B, n) or (B, copies, n), and return the images in the user's order."""
    stacks = []
    for group in examples.groups:
        parts = [
            decode(group, rows, examples.fields(theta, group, rows))
            for rows in group.pieces(copies)
        ]
        flat = parts[0] if len(parts) == 1 else np.concatenate(parts)
        stacks.append(flat.reshape(*flat.shape[:-1], *group.shape))
    return examples.in_order(stacks)


def _checksums(group: Group, rows: IntArray) -> IntArray:
    """Return checksums of the data of each example, whatever their type."""
    numbers = np.zeros(len(rows), dtype=np.int64)
    for place, row in enumerate(rows[:, None]):
        number = 0
        if group.observed is not None:
            seen = group.read_observed(row) + 0.0  # no negative zeros
            number = zlib.crc32(np.where(np.isnan(seen), np.nan, seen).tobytes())
        if isinstance(group.features, Dense):
            number = zlib.crc32((group.features.values[row] + 0.0).tobytes(), number)
        numbers[place] = number
    return numbers


def make_function(group: Group, row: int, alpha: FloatArray) -> SubmodularFunction:
    r"""Return :math:`\sum_k\alpha_kf_k` of an example, with its factors on the edges."""
    factors = None if group.edge_weights is None else group.edge_weights[row]
    return weighted_sum(group.prepared, alpha, factors)


def make_model(
    group: Group,
    row: int,
    alpha: FloatArray,
    field: FloatArray,
    shape: tuple[int, ...] | None = None,
) -> LogSupermodular:
    """Return the model of an example; infinite fields fix elements. By default x is a vector."""
    infinite = np.isinf(field)
    f = make_function(group, row, alpha) - Modular(np.where(infinite, 0.0, field))
    fixed = {int(d): int(field[d] > 0) for d in np.flatnonzero(infinite)}
    model = LogSupermodular(f, shape=(f.n,) if shape is None else shape)
    return model.condition(fixed) if fixed else model


def _open(probabilities: FloatArray, field: FloatArray) -> FloatArray:
    """Replace 0 and 1 that are due to rounding by the next number; fixed elements stay."""
    inside = np.clip(probabilities, np.finfo(np.float64).tiny, np.nextafter(1.0, 0.0))
    return np.where(np.isinf(field), probabilities, inside)


def _settled(f: SubmodularFunction, fields: FloatArray) -> FloatArray:
    """Replace infinite fields by finite ones too large to be overcome."""
    infinite = np.isinf(fields)
    if not infinite.any():
        return fields
    # gains decrease in x, so that those at 0 and at 1 bound all others; noise is below 750
    ends = np.abs(f.gains(np.stack([np.zeros(f.n), np.ones(f.n)]))).max(axis=0)
    return np.where(infinite, np.copysign(1e3 + 2.0 * ends, fields), fields)
