"""Training data as learners see it: flat images in groups of one shape, in few bytes per pixel.

`make_examples` makes it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logsuper._base import FloatArray, IntArray, beat, count_threads, refuse
from logsuper.channels import Channel
from logsuper.learning._features import Context, Dense, Features, Judged
from logsuper.learning._layout import LARGEST, Layout
from logsuper.learning._lazy_images import WHOLE, ImageRows, LazyRows, StoredRows
from logsuper.solvers import Prepared

Codes = NDArray[np.uint8]
Rows = NDArray[Any] | LazyRows
Images = NDArray[Any] | list[NDArray[Any]]

UNKNOWN = 2
"""The code of a pixel without a label, or of one that was not observed."""

# Features that are made from observations.
_AROUND = (Context, Judged)
# Numbers per piece: pixels of its examples, times the copies of each.
_PIECE = 1 << 20
# Maximum number of pixels whose log-odds are kept; beyond, they are computed for each batch.
_KEPT = 1 << 22


class Moments(NamedTuple):
    r"""The statistics of some examples, of data or expected under a model.

    Attributes
    ----------
    stats : ndarray of shape (B, K)
        :math:`f_k(x)`.
    mean : ndarray of shape (B, n)
        :math:`x`.
    agreement : ndarray of shape (B,)
        :math:`l_i^\top x`; 0 where nothing is observed.
    features : ndarray of shape (B, p) or None
        :math:`\Phi_i^\top x` where it is known already.
    ones : ndarray of shape (B, 1) or None
        The statistic of a modular term that all pixels share, where it is known already.
    """

    stats: FloatArray
    mean: FloatArray
    agreement: FloatArray
    features: FloatArray | None = None
    ones: FloatArray | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Group:
    """Examples of one shape.

    Attributes
    ----------
    shape : tuple of int
    prepared : Prepared
        The functions on this shape.
    index : ndarray of shape (N,)
        The place of each example in the user's order.
    labels : ndarray or LazyRows of shape (N, n), uint8, or None
        0, 1 or `UNKNOWN`.
    observed : ndarray or LazyRows of shape (N, n), or None
        uint8 with `UNKNOWN` where all observations are 0, 1 or missing; else float64 with NaN.
    features : Features or None
    edge_weights : ndarray of shape (N, E) or (N, K, E), or None
        Factors on the edges of the cuts.
    odds : ndarray of shape (N, n), or None
        The log-odds of what was observed, when they are few enough to keep.
    around : ndarray of shape (N, ...), or None
        What the features are made from, when it is made from these log-odds.
    """

    shape: tuple[int, ...]
    prepared: Prepared
    index: IntArray
    labels: Rows | None
    observed: Rows | None
    features: Features | None
    edge_weights: FloatArray | None
    odds: FloatArray | None = None
    around: FloatArray | None = None

    @property
    def count(self) -> int:
        """Number of examples."""
        return len(self.index)

    def read_observed(self, rows: IntArray) -> FloatArray:
        """Return observations as float64, NaN where there is none."""
        assert self.observed is not None
        part = self.observed[rows]
        if part.dtype == np.uint8:
            return np.where(part == UNKNOWN, np.nan, part)
        return np.asarray(part, dtype=np.float64)

    def encode(self, observed: NDArray[Any]) -> NDArray[Any]:
        """Return observations as they are kept."""
        bits = self.observed is not None and self.observed.dtype == np.uint8
        if bits and observed.dtype == np.uint8:
            return observed
        values = np.asarray(observed, dtype=np.float64)
        return np.where(np.isnan(values), UNKNOWN, values).astype(np.uint8) if bits else values

    def images(self, rows: IntArray) -> FloatArray:
        """Return observations in the shape of the images: channels may have rates per pixel."""
        return self.read_observed(rows).reshape(-1, *self.shape)

    def alike(self, observed: bool = True) -> bool:
        """Return whether all examples have the same model, whatever their labels are.

        With ``observed=False`` that of the prior, to which observations do not belong.
        """
        seen = observed and self.observed is not None
        return not seen and self.features is None and self.edge_weights is None

    def pieces(self, copies: int = 1, rows: IntArray | None = None) -> Iterator[IntArray]:
        """Split rows, all by default, such that `copies` numbers per pixel fit into memory."""
        return in_pieces(np.arange(self.count) if rows is None else rows, self.prepared.n * copies)

    def inputs(self, rows: IntArray, odds: FloatArray | None) -> FloatArray:
        """Return what the features of some examples are made from, given their log-odds."""
        assert self.features is not None
        return self.features.inputs(rows, odds) if self.around is None else self.around[rows]

    def take(self, rows: IntArray, index: IntArray) -> Group:
        """Return some rows, with other places in the user's order."""
        kept: dict[str, Any] = {
            name: value.take(rows, _PIECE)
            if isinstance(value, LazyRows)
            else None
            if value is None
            else value[rows]
            for name in ("labels", "observed", "edge_weights", "odds", "around")
            for value in [getattr(self, name)]
        }
        features = None if self.features is None else self.features.subset(rows)
        return dataclasses.replace(self, index=index, features=features, **kept)

    def room(self, dtype: Any = np.uint8) -> Rows:
        """Return where to put a row per example: a file if the examples are not in memory."""
        if isinstance(self.labels, LazyRows) or isinstance(self.observed, LazyRows):
            stored = StoredRows(self.count, self.prepared.n, dtype)
            return LazyRows(stored, np.arange(self.count))
        return np.empty((self.count, self.prepared.n), dtype=dtype)

    @functools.cached_property
    def has_gaps(self) -> bool:
        """Whether features are made from observations some of which may be missing."""
        if self.observed is None or not isinstance(self.features, _AROUND):
            return False
        if isinstance(self.observed, LazyRows):
            source = self.observed.source
            if not isinstance(source, ImageRows):
                return True
            return not source.images.have(WHOLE, self.observed.numbers)
        bits = self.observed.dtype == np.uint8
        return bool((self.observed == UNKNOWN if bits else np.isnan(self.observed)).any())

    @property
    def labelled(self) -> bool:
        """Whether every pixel of every example has a label."""
        if isinstance(self.labels, LazyRows) and isinstance(self.labels.source, ImageRows):
            return self.labels.source.images.have(WHOLE, self.labels.numbers)
        if self.labels is None:
            return False
        return not any((self.labels[rows] == UNKNOWN).any() for rows in self.pieces())

    def factors(self, rows: IntArray, copies: int = 1) -> FloatArray | None:
        """Return the factors on the edges of some examples, each repeated `copies` times."""
        return None if self.edge_weights is None else self.edge_weights[np.repeat(rows, copies)]

    def evaluate(self, x: NDArray[Any], rows: IntArray, copies: int = 1) -> FloatArray:
        """Return f_k(x), (B, K), at `copies` points for each of some examples."""
        # with every element fixed, maximising only evaluates f_k, with factors on edges too
        point, zero = np.where(x == 1, np.inf, -np.inf), np.zeros(len(self.prepared.functions))
        return self.prepared.maximize(point, zero, edge_weights=self.factors(rows, copies))[2]


@dataclasses.dataclass(frozen=True, eq=False)
class Examples:
    """What learners learn from; make it with `make_examples`.

    Attributes
    ----------
    groups : tuple of Group
    layout : Layout
    channel : Channel or None
        The model of the observations; None without observations.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import make_examples
    >>> x = ls.make_silhouettes(3, shape=(16, 16), seed=0)
    >>> data = make_examples(ls.grid_cuts((16, 16)), labels=x, modular="shared")
    >>> data.count, data.layout.size, data.channel
    (3, 3, None)
    """

    groups: tuple[Group, ...]
    layout: Layout
    channel: Channel | None

    @property
    def count(self) -> int:
        """Number of examples."""
        return sum(group.count for group in self.groups)

    @property
    def pixels(self) -> int:
        """Number of pixels of all examples."""
        return sum(group.count * group.prepared.n for group in self.groups)

    @property
    def largest(self) -> int:
        """Number of pixels of the largest example."""
        return max(group.prepared.n for group in self.groups)

    @property
    def has_labels(self) -> bool:
        """Whether there are labels, though some may be missing."""
        return all(group.labels is not None for group in self.groups)

    @property
    def labelled(self) -> bool:
        """Whether every pixel of every example has a label."""
        return all(group.labelled for group in self.groups)

    def alike(self, observed: bool = True) -> bool:
        """Return whether all examples of a shape have the same model; see `Group.alike`."""
        return all(group.alike(observed) for group in self.groups)

    def compare(self, found: Any) -> Iterator[tuple[Codes, NDArray[Any]]]:
        """Yield the known labels of each example, and what was found for these pixels."""
        for group in self.groups:
            assert group.labels is not None
            for i, labels in zip(group.index, group.labels, strict=True):
                known = labels != UNKNOWN
                yield labels[known], found[i].ravel()[known]

    def in_order(self, stacks: Sequence[NDArray[Any]]) -> Images:
        """Return images of all groups in the user's order: an array if all have one shape."""
        if len(stacks) == 1:
            return stacks[0]
        pairs = zip(self.groups, stacks, strict=True)
        found = {
            i: image
            for group, stack in pairs
            for i, image in zip(group.index.tolist(), stack, strict=True)
        }
        return [found[i] for i in range(self.count)]

    def with_channel(self, channel: Channel | None) -> Examples:
        """Return the same data as seen through another channel."""
        groups = tuple(_with_odds(group, channel) for group in self.groups)
        return dataclasses.replace(self, channel=channel, groups=groups)

    def with_observed(
        self, observed: Sequence[Rows], labels: Sequence[Rows] | None = None
    ) -> Examples:
        """Return the same examples with other observations, and labels: (N, n) of each group.

        Observations are given as groups keep them, or as float64 with NaN.
        """
        groups = []
        for g, (group, z) in enumerate(zip(self.groups, observed, strict=True)):
            codes = z if isinstance(z, LazyRows) else group.encode(z)
            known = None if labels is None else labels[g]
            groups.append(dataclasses.replace(group, observed=codes, labels=known))
        return dataclasses.replace(self, groups=tuple(groups)).with_channel(self.channel)

    def subset(self, index: IntArray) -> Examples:
        """Return some of the examples, renumbered from 0 in the order of `index`."""
        groups = []
        for group in self.groups:
            place = np.flatnonzero(np.isin(index, group.index))
            if len(place):
                rows = np.searchsorted(group.index, np.asarray(index)[place])
                groups.append(group.take(rows, place))
        return dataclasses.replace(self, groups=tuple(groups))

    def some(self, pixels: int, key: int) -> Examples:
        """Return random examples with at most `pixels` pixels in all; at least one example."""
        chosen = self.pick(pixels, key)
        return self if len(chosen) == self.count else self.subset(chosen)

    def pick(self, pixels: int, key: int) -> IntArray:
        """Return the numbers of the examples that `some` returns."""
        order = np.random.default_rng(key).permutation(self.count)
        size = np.empty(self.count, dtype=np.int64)
        for group in self.groups:
            size[group.index] = group.prepared.n
        count = max(1, int(np.searchsorted(np.cumsum(size[order]), pixels, side="right")))
        return np.sort(order[:count])

    def parts(self, index: IntArray | None = None) -> Iterator[tuple[Group, IntArray]]:
        """Split examples, all by default, by shape: yields a group and rows of it."""
        for group in self.groups:
            if index is None:
                yield group, np.arange(group.count)
            else:
                # a group's index is increasing, so that a row is found by bisection
                row = np.searchsorted(group.index, index)
                inside = np.minimum(row, group.count - 1)
                mine = inside[group.index[inside] == index]
                if len(mine):
                    yield group, mine

    def pieces(
        self, copies: int = 1, index: IntArray | None = None
    ) -> Iterator[tuple[Group, IntArray]]:
        """Split examples by shape, and each shape as `Group.pieces` does."""
        for group, rows in self.parts(index):
            for piece in group.pieces(copies, rows):
                yield group, piece

    def _sees(self, group: Group) -> bool:
        return self.channel is not None and group.observed is not None

    def log_odds(self, group: Group, rows: IntArray) -> FloatArray:
        """Return what the observations add to the fields, (B, n); 0 without observations."""
        if group.odds is not None:
            return group.odds[rows]
        if self.channel is None or group.observed is None:
            return np.zeros((len(rows), group.prepared.n))
        return _odds(group, self.channel, rows)

    def fields(
        self, theta: FloatArray, group: Group, rows: IntArray, observed: bool = True
    ) -> FloatArray:
        r"""Return :math:`u_i=t+\Phi_i\beta+w\,l_i` of some examples, (B, n).

        With ``observed=False`` the last term is left out: the field of the prior. A t that all
        pixels share goes with the features: it is left out where nothing was observed around a
        pixel. There it would stand for half of the surroundings being 1, add up over a wide gap,
        and fill it with what is more frequent elsewhere.
        """
        at, layout = self.layout.blocks, self.layout
        odds = self.log_odds(group, rows) if self._sees(group) else None
        if observed and odds is not None:
            scale = theta[-1] if layout.scale else 1.0
            # in place, as log-odds are a copy, unless features need them
            field = np.multiply(odds, scale, out=odds if group.features is None else None)
        else:
            field = np.zeros((len(rows), group.prepared.n))
        features = group.features
        inputs = np.empty(0) if features is None else group.inputs(rows, odds)
        if layout.modular:
            t: FloatArray = theta[at["modular"]]
            reached = self._reached(group, inputs)
            field += t if reached is None else t * reached
        if features is not None:
            field += features.field(inputs, theta[at["beta"]])
        return field

    def agreement(self, group: Group, rows: IntArray, mean: FloatArray) -> FloatArray:
        r"""Return :math:`l_i^\top x_i` of some examples, (B,)."""
        if not self._sees(group):
            return np.zeros(len(rows))
        return np.asarray(np.einsum("bd,bd->b", self.log_odds(group, rows), mean))

    def statistics(self, group: Group, rows: IntArray, moments: Moments) -> FloatArray:
        r"""Return :math:`\varphi_i(x_i)`, the statistics in the order of the parameters, (B, P)."""
        return np.concatenate(list(self.blocks(group, rows, moments)), axis=1)

    def mean_statistics(self, group: Group, rows: IntArray, moments: Moments) -> FloatArray:
        """Return the mean of `statistics` over the examples, (P,), without forming all of them."""
        blocks = self.blocks(group, rows, moments)
        return np.concatenate([np.add.reduce(block, axis=0) for block in blocks]) / len(rows)

    def blocks(self, group: Group, rows: IntArray, moments: Moments) -> Iterator[FloatArray]:
        """Yield the statistics of each kind of parameter, (B, size)."""
        yield -moments.stats
        if moments.features is None or (self.layout.modular == 1 and moments.ones is None):
            moments = self._with_features(group, rows, moments)
        if self.layout.modular == 1:
            assert moments.ones is not None
            yield moments.ones
        elif self.layout.modular:
            yield moments.mean
        if moments.features is not None:
            yield moments.features
        if self.layout.scale:
            yield moments.agreement[:, None]

    def _with_features(self, group: Group, rows: IntArray, moments: Moments) -> Moments:
        r"""Add :math:`\Phi_i^\top x_i`, and the statistic of a modular term that pixels share."""
        mean, features, inputs = moments.mean, moments.features, np.empty(0)
        wanted = group.features is not None and features is None
        if wanted or (self.layout.modular == 1 and group.has_gaps):
            odds = None
            if group.around is None and self._sees(group):
                odds = self.log_odds(group, rows)
            inputs = group.inputs(rows, odds)
        if group.features is not None and features is None:
            features = group.features.statistics(inputs, mean)
        reached = self._reached(group, inputs)
        ones = (mean if reached is None else mean * reached).sum(axis=1, keepdims=True)
        return moments._replace(features=features, ones=ones)

    def _reached(self, group: Group, inputs: FloatArray) -> FloatArray | None:
        """Return where a modular term that pixels share counts, (B, n); None if everywhere."""
        features = group.features
        if self.layout.modular != 1 or not group.has_gaps or not isinstance(features, _AROUND):
            return None
        return features.reached(inputs)

    def label_moments(self, group: Group, rows: IntArray) -> Moments:
        """Return the statistics of the labels; all pixels must have one."""
        assert group.labels is not None
        mean = group.labels[rows].astype(np.float64)
        agreement = self.agreement(group, rows, mean)
        found = Moments(group.evaluate(mean, rows), mean, agreement)
        return self._with_features(group, rows, found)


# ------------------------------------------------------------------------------------------ inside


def in_pieces(rows: IntArray, width: int) -> Iterator[IntArray]:
    """Split rows of `width` numbers each into pieces that fit into memory."""
    size = max(1, _PIECE // max(1, width))
    for first in range(0, len(rows), size):
        beat()
        yield rows[first : first + size]


def check_examples(examples: object, n_jobs: int | None = None) -> None:
    """Refuse what is not `Examples`, or not a number of threads."""
    if not isinstance(examples, Examples):
        raise TypeError(
            f"examples must be what make_examples returns, got a {type(examples).__name__}"
        )
    count_threads(n_jobs)


def check_observed(examples: Examples, who: str) -> Channel:
    """Return the channel; refuse examples without observations, with `who` in the message."""
    check_examples(examples)
    if examples.channel is None or any(group.observed is None for group in examples.groups):
        raise ValueError(f"{who} observations; give observed and its channel")
    return examples.channel


def refuse_large(values: FloatArray, name: str) -> None:
    """Raise for numbers that learners could not square and sum; infinite log-odds are legal."""
    large = np.isfinite(values) & (np.abs(values) > LARGEST)
    refuse(large, values, name, f"larger than {LARGEST:g}, too much to learn from; rescale it")


def _with_odds(group: Group, channel: Channel | None) -> Group:
    """Return a group with log-odds, and what is made from them, where they are kept."""
    odds, around, rows = None, None, np.arange(group.count)
    if channel is not None and group.observed is not None and group.observed.size <= _KEPT:
        odds = _odds(group, channel, rows)
        if group.features is not None and not isinstance(group.features, Dense):
            around = group.features.inputs(rows, odds)
    return dataclasses.replace(group, odds=odds, around=around)


def _odds(group: Group, channel: Channel, rows: IntArray) -> FloatArray:
    """Return log-odds (B, n)."""
    assert group.observed is not None
    bits = group.observed[rows]
    if bits.dtype != np.uint8:
        odds = channel.log_odds(group.images(rows))
        refuse_large(odds, "the log-odds of observed")
        return odds.reshape(len(rows), -1)
    # logarithms of an image per value, not of every pixel: every pass over the data needs these
    of = np.zeros((3, group.prepared.n))
    for bit in (0, 1):
        if (bits == bit).any():
            of[bit] = channel.log_odds(np.full((1, *group.shape), float(bit))).ravel()
    refuse_large(of, "the log-odds of observed")
    if (of == of[:, :1]).all():
        return np.asarray(of[:, 0][bits])
    return np.where(bits == UNKNOWN, 0.0, np.where(bits == 1, of[1], of[0]))
