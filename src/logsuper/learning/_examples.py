"""Training data as learners see it: flat images in groups of one shape, in few bytes a pixel."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logsuper.channels import Channel
from logsuper.functions._base import SubmodularFunction
from logsuper.functions._checks import (
    FloatArray,
    IntArray,
    as_array,
    as_float,
    as_list,
    check_choice,
    check_flag,
    entry,
    first_index,
)
from logsuper.learning._features import Context, Dense, Features
from logsuper.learning._layout import LARGEST, Layout
from logsuper.solvers._inputs import check_integer
from logsuper.solvers._prepare import Prepared, prepare

__all__ = ["Examples", "Group", "Moments", "make_examples"]

Functions = Sequence[SubmodularFunction]
Codes = NDArray[np.uint8]

UNKNOWN = 2
"""The code of a pixel without a label, or of one that was not observed."""

MODULAR = ("pixel", "shared", "none")

# Log-odds of that many pixels are kept; beyond, they are made anew for each batch.
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
    """

    stats: FloatArray
    mean: FloatArray
    agreement: FloatArray
    features: FloatArray | None = None


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
    labels : ndarray of shape (N, n), uint8, or None
        0, 1 or `UNKNOWN`.
    observed : ndarray of shape (N, n), or None
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
    labels: Codes | None
    observed: NDArray[Any] | None
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

    def inputs(self, rows: IntArray, odds: FloatArray | None) -> FloatArray:
        """Return what the features of some examples are made from, given their log-odds."""
        assert self.features is not None
        return self.features.inputs(rows, odds) if self.around is None else self.around[rows]

    def take(self, rows: IntArray, index: IntArray) -> Group:
        """Return some rows, with other places in the user's order."""
        kept: dict[str, Any] = {
            name: None if value is None else value[rows]
            for name in ("labels", "observed", "edge_weights", "odds", "around")
            for value in [getattr(self, name)]
        }
        features = None if self.features is None else self.features.subset(rows)
        return dataclasses.replace(self, index=index, features=features, **kept)

    def factors(self, rows: IntArray) -> FloatArray | None:
        """Return the factors on the edges of some examples."""
        return None if self.edge_weights is None else self.edge_weights[rows]


@dataclasses.dataclass(frozen=True, eq=False)
class Examples:
    """What learners learn from; make it with `make_examples`.

    Attributes
    ----------
    groups : tuple of Group
    layout : Layout
    channel : Channel or None
        How the observations came about; None where there are none.
    """

    groups: tuple[Group, ...]
    layout: Layout
    channel: Channel | None

    @property
    def count(self) -> int:
        """Number of examples."""
        return sum(group.count for group in self.groups)

    @property
    def labelled(self) -> bool:
        """Whether every pixel of every example has a label."""
        return all(g.labels is not None and not (g.labels == UNKNOWN).any() for g in self.groups)

    def with_channel(self, channel: Channel | None) -> Examples:
        """Return the same data as seen through another channel."""
        return dataclasses.replace(
            self,
            channel=channel,
            groups=tuple(_with_odds(group, channel) for group in self.groups),
        )

    def with_observed(
        self, observed: Sequence[FloatArray], labels: Sequence[Codes] | None = None
    ) -> Examples:
        """Return the same examples with other observations, and labels: (N, n) of each group."""
        groups = []
        for g, (group, z) in enumerate(zip(self.groups, observed, strict=True)):
            codes: NDArray[Any] = np.asarray(z, dtype=np.float64)
            if group.observed is not None and group.observed.dtype == np.uint8:
                codes = np.where(np.isnan(codes), UNKNOWN, codes).astype(np.uint8)
            groups.append(
                dataclasses.replace(
                    group, observed=codes, labels=None if labels is None else labels[g]
                )
            )
        return dataclasses.replace(self, groups=tuple(groups)).with_channel(self.channel)

    def subset(self, index: IntArray) -> Examples:
        """Return some of the examples, numbered anew from 0 in the order of `index`."""
        groups = []
        for group in self.groups:
            place = np.flatnonzero(np.isin(index, group.index))
            if len(place):
                rows = np.searchsorted(group.index, np.asarray(index)[place])
                groups.append(group.take(rows, place))
        return dataclasses.replace(self, groups=tuple(groups))

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

        With ``observed=False`` the last term is left out: the field of the prior.
        """
        at, layout = self.layout.blocks, self.layout
        odds = self.log_odds(group, rows) if self._sees(group) else None
        if observed and odds is not None:
            scale = theta[-1] if layout.scale else 1.0
            # log-odds are a copy; features still need them
            field = np.multiply(odds, scale, out=odds if group.features is None else None)
        else:
            field = np.zeros((len(rows), group.prepared.n))
        if layout.modular:
            field += theta[at["modular"]]
        if group.features is not None:
            field += group.features.field(group.inputs(rows, odds), theta[at["beta"]])
        return field

    def agreement(self, group: Group, rows: IntArray, mean: FloatArray) -> FloatArray:
        r"""Return :math:`l_i^\top x_i` of some examples, (B,)."""
        if not self._sees(group):
            return np.zeros(len(rows))
        return np.asarray(np.einsum("bd,bd->b", self.log_odds(group, rows), mean))

    def statistics(self, group: Group, rows: IntArray, moments: Moments) -> FloatArray:
        r"""Return :math:`\varphi_i(x_i)`, the statistics in the order of the parameters, (B, P)."""
        return np.concatenate(list(self._blocks(group, rows, moments)), axis=1)

    def mean_statistics(self, group: Group, rows: IntArray, moments: Moments) -> FloatArray:
        """Return the mean of `statistics` over the examples, (P,), without forming all of them."""
        blocks = self._blocks(group, rows, moments)
        return np.concatenate([np.add.reduce(block, axis=0) for block in blocks]) / len(rows)

    def _blocks(self, group: Group, rows: IntArray, moments: Moments) -> Iterator[FloatArray]:
        """Yield the statistics of each kind of parameter, (B, size)."""
        yield -moments.stats
        if self.layout.modular == 1:
            yield moments.mean.sum(axis=1, keepdims=True)
        elif self.layout.modular:
            yield moments.mean
        if moments.features is not None:
            yield moments.features
        elif group.features is not None:
            yield self.feature_statistics(group, rows, moments.mean)
        if self.layout.scale:
            yield moments.agreement[:, None]

    def feature_statistics(self, group: Group, rows: IntArray, mean: FloatArray) -> FloatArray:
        r"""Return :math:`\Phi_i^\top x_i` of some examples, (B, p)."""
        assert group.features is not None
        odds = None
        if group.around is None and self._sees(group):
            odds = self.log_odds(group, rows)
        return group.features.statistics(group.inputs(rows, odds), mean)

    def label_moments(self, group: Group, rows: IntArray) -> Moments:
        """Return the statistics of the labels; all pixels must have one."""
        assert group.labels is not None
        x = group.labels[rows]
        mean = x.astype(np.float64)
        fixed = np.where(x == 1, np.inf, -np.inf)
        # with every element fixed, maximising only evaluates f_k, factors on edges and all
        _, _, stats = group.prepared.maximize(
            fixed, np.zeros(self.layout.functions), edge_weights=group.factors(rows)
        )
        features = None
        if group.features is not None:
            features = self.feature_statistics(group, rows, mean)
        return Moments(stats, mean, self.agreement(group, rows, mean), features)


def make_examples(
    functions: Functions | Callable[[tuple[int, ...]], Functions],
    *,
    labels: Any = None,
    observed: Any = None,
    channel: Channel | None = None,
    modular: str = "pixel",
    features: Any = None,
    context: int = 0,
    edge_weights: Any = None,
    scale: bool = False,
) -> Examples:
    r"""Gather training data.

    Parameters
    ----------
    functions : sequence of SubmodularFunction, or callable
        :math:`f_1,\dots,f_K`; or what returns them for the shape of an image, where shapes differ.
    labels : array-like (N, ...) or list of arrays, optional
        The x: 0 or 1, NaN or masked where there is no label.
    observed : array-like (N, ...) or list of arrays, optional
        What was observed of each x, NaN or masked where nothing was.
    channel : Channel, optional
        How `observed` came about.
    modular : {"pixel", "shared", "none"}
        The modular term t: one number a pixel, one for all, or none.
    features : array-like (N, ..., p) or list of arrays, optional
        What else is known of each pixel, such as the log-odds that a classifier gives it; weighed
        by learned coefficients, :math:`t=\Phi\beta`. Enough on their own for decoding.
    context : int
        Instead of `features`, what was observed in a window of that radius around each pixel, the
        pixel itself left out: the learned coefficients are a linear filter.
    edge_weights : array-like (N, E) or (N, K, E), or list of arrays (E,) or (K, E), optional
        Factors on the edges of the cuts, in the order of `Prepared.edges`.
    scale : bool
        Whether a factor w on the log-odds of the observations is learned.

    Returns
    -------
    data : Examples

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import make_examples
    >>> x = ls.make_silhouettes(3, shape=(16, 17), seed=0)
    >>> z = ls.Flips(0.1).sample(x, seed=1)
    >>> data = make_examples(ls.grid_cuts((16, 17)), labels=x, observed=z, channel=ls.Flips(0.1))
    >>> data.count, data.layout.size
    (3, 274)
    """
    if labels is None and observed is None and features is None:
        raise ValueError("labels, observed and features are all missing; give at least one")
    check_choice(modular, "modular", MODULAR)
    if observed is not None and channel is None:
        raise ValueError("observed needs a channel that says how it came about")
    if channel is not None and not isinstance(channel, Channel):
        raise TypeError(
            f"channel must be a channel, such as Flips(0.1), got a {type(channel).__name__}"
        )
    if scale and observed is None:
        raise ValueError("scale=True learns a factor on observations; give observed")
    if context and (features is not None or observed is None):
        raise ValueError("context takes the place of features, and needs observed")
    check_flag(scale, "scale")
    radius = check_integer(context, "context", 0, 64)
    x = None if labels is None else _as_images(labels, "labels")
    z = None if observed is None else _as_images(observed, "observed")
    phi = None if features is None else _per_image(features, "features")
    shapes = _shapes(x, z, phi)
    if modular == "pixel" and len(set(shapes)) > 1:
        raise ValueError(
            f"modular='pixel' needs images of one shape, but image 0 has {shapes[0]} and another "
            f"{next(s for s in shapes if s != shapes[0])}; use modular='shared'"
        )
    factors = None if edge_weights is None else _per_image(edge_weights, "edge_weights")
    for rows, name in ((phi, "features"), (factors, "edge_weights")):
        if rows is not None and len(rows) != len(shapes):
            raise ValueError(f"{name} is for {len(rows)} images, but there are {len(shapes)}")
    groups = []
    for shape in dict.fromkeys(shapes):
        index = np.flatnonzero([s == shape for s in shapes])
        prepared = prepare(functions(shape) if callable(functions) else functions)
        _refuse_large_functions(prepared)
        n = math.prod(shape)
        if prepared.n != n:
            raise ValueError(
                f"functions have n = {prepared.n}, but images of {shape} have {n} pixels"
            )
        groups.append(
            Group(
                shape,
                prepared,
                index,
                None if x is None else _label_codes(x, index, n),
                None if z is None else _observed_codes(z, index, n),
                _features(phi, index, shape, radius),
                None if factors is None else _edge_factors(factors, index, prepared),
            )
        )
    counts = {len(group.prepared.functions) for group in groups}
    if len(counts) > 1:
        raise ValueError(f"functions returns {sorted(counts)} functions for different shapes")
    widths = {group.features.size for group in groups if group.features is not None} or {0}
    if len(widths) > 1:
        raise ValueError(f"features has {sorted(widths)} columns in different images")
    size = {"pixel": groups[0].prepared.n, "shared": 1, "none": 0}[modular]
    layout = Layout(counts.pop(), size, widths.pop(), scale)
    return Examples(tuple(groups), layout, None).with_channel(channel)


# ------------------------------------------------------------------------------------------ inside


def _refuse_large(values: FloatArray, name: str) -> None:
    """Raise for numbers that learners could not square and sum; infinite log-odds are legal."""
    large = np.isfinite(values) & (np.abs(values) > LARGEST)
    if large.any():
        at = first_index(large)
        raise ValueError(
            f"{entry(name, at)} = {values[at]:g} is larger than {LARGEST:g}, too much to learn "
            "from; rescale it"
        )


def _refuse_large_functions(prepared: Prepared) -> None:
    """Raise for a function with values that learners could not square and sum.

    By submodularity the gains at 0 and the value at 1 bound all others, but for a factor of n.
    """
    zero = np.zeros(prepared.n)
    for k, f in enumerate(prepared.functions):
        _refuse_large(np.append(f.gains(zero), f(1.0 - zero)), f"the gain of functions[{k}]")


def _with_odds(group: Group, channel: Channel | None) -> Group:
    """Return a group with log-odds, and what is made from them, where they are kept."""
    odds, around = _keep_odds(group, channel), None
    if odds is not None and isinstance(group.features, Context):
        around = group.features.inputs(np.arange(group.count), odds)
    return dataclasses.replace(group, odds=odds, around=around)


def _keep_odds(group: Group, channel: Channel | None) -> FloatArray | None:
    if channel is None or group.observed is None or group.observed.size > _KEPT:
        return None
    return _odds(group, channel, np.arange(group.count))


def _odds(group: Group, channel: Channel, rows: IntArray) -> FloatArray:
    """Return log-odds (B, n); the channel sees images, for it may have rates for each pixel."""
    images = group.read_observed(rows).reshape(-1, *group.shape)
    odds = channel.log_odds(images)
    _refuse_large(odds, "the log-odds of observed")
    return odds.reshape(len(rows), -1)


def _as_images(images: Any, name: str) -> list[NDArray[Any]]:
    """Return a list of arrays, masked entries as NaN; a stack is not copied."""
    if isinstance(images, np.ma.MaskedArray):
        images = np.ma.filled(images.astype(np.float64), np.nan)
    if not isinstance(images, np.ndarray) and not isinstance(images, list | tuple):
        images = as_array(images, name)
    if isinstance(images, np.ndarray) and images.ndim < 2:
        raise ValueError(f"{name} must hold images, one a row at least, got shape {images.shape}")
    if not len(images):
        raise ValueError(f"{name} is empty; give at least one image")
    result = []
    for i, image in enumerate(images):
        if isinstance(image, np.ma.MaskedArray):
            image = np.ma.filled(image.astype(np.float64), np.nan)
        array = as_array(image, f"{name}[{i}]")
        if array.dtype.kind not in "biuf":
            raise TypeError(f"{name}[{i}] must hold numbers, got dtype {array.dtype}")
        result.append(array)
    return result


def _shapes(
    x: list[NDArray[Any]] | None, z: list[NDArray[Any]] | None, phi: list[FloatArray] | None
) -> list[tuple[int, ...]]:
    if x is not None and z is not None:
        if len(x) != len(z):
            raise ValueError(f"labels has {len(x)} images, observed {len(z)}")
        for i, (a, b) in enumerate(zip(x, z, strict=True)):
            if a.shape != b.shape:
                raise ValueError(f"labels[{i}] has shape {a.shape}, observed[{i}] {b.shape}")
    images = z if x is None else x
    if images is not None:
        return [image.shape for image in images]
    assert phi is not None
    if not phi:
        raise ValueError("features is empty; give at least one image")
    for i, rows in enumerate(phi):
        if rows.ndim < 2:
            raise ValueError(f"features[{i}] has shape {rows.shape}; give one row a pixel")
    return [rows.shape[:-1] for rows in phi]


def _label_codes(images: list[NDArray[Any]], index: IntArray, n: int) -> Codes:
    codes = np.empty((len(index), n), dtype=np.uint8)
    for row, i in enumerate(index):
        codes[row] = _codes(images[i], f"labels[{i}]", "a pixel without a label is NaN").ravel()
    return codes


def _codes(image: NDArray[Any], name: str, remedy: str) -> Codes:
    if image.dtype == np.bool_:
        return image.view(np.uint8)
    unknown = np.isnan(image) if image.dtype.kind == "f" else np.zeros(image.shape, dtype=bool)
    bad = ~unknown & (image != 0) & (image != 1)
    if bad.any():
        at = first_index(bad)
        raise ValueError(f"{entry(name, at)} = {image[at]} is neither 0 nor 1; {remedy}")
    return np.where(unknown, UNKNOWN, image == 1).astype(np.uint8)


def _observed_codes(images: list[NDArray[Any]], index: IntArray, n: int) -> NDArray[Any]:
    """Return a byte a pixel where all is 0, 1 or missing, else eight."""
    if all(_is_binary(images[i]) for i in index):
        codes = np.empty((len(index), n), dtype=np.uint8)
        for row, i in enumerate(index):
            codes[row] = _codes(images[i], f"observed[{i}]", "").ravel()
        return codes
    grey = np.empty((len(index), n))
    for row, i in enumerate(index):
        grey[row] = images[i].ravel()
        if np.isinf(grey[row]).any():
            raise ValueError(f"observed[{i}] has an infinite entry; NaN means missing")
    return grey


def _is_binary(image: NDArray[Any]) -> bool:
    return image.dtype == np.bool_ or bool(np.all((image == 0) | (image == 1) | (image != image)))


def _features(
    given: list[FloatArray] | None, index: IntArray, shape: tuple[int, ...], radius: int
) -> Features | None:
    if given is None:
        return Context(shape, radius) if radius else None
    flat = (math.prod(shape),)
    for i in index:
        # any other layout would take one pixel's features for another's
        if given[i].shape[:-1] not in (shape, flat):
            raise ValueError(
                f"features[{i}] has shape {given[i].shape}, but the image {shape}: give the p "
                f"features of a pixel last, ({', '.join(map(str, shape))}, p)"
            )
    return Dense(_stack([given[i].reshape(*flat, -1) for i in index], "features"))


def _edge_factors(given: list[FloatArray], index: IntArray, prepared: Prepared) -> FloatArray:
    """Return the factors on the edges of some images, (N, E) or (N, K, E)."""
    edges = len(prepared.edges)
    legal = ((edges,), (len(prepared.functions), edges))
    for i in index:
        if not edges or given[i].shape not in legal:
            raise ValueError(
                f"edge_weights[{i}] has shape {given[i].shape}, but the functions on this image "
                + (f"have {edges} edges: give {legal[0]} or {legal[1]}" if edges else "have none")
            )
        if (given[i] < 0).any():
            at = first_index(given[i] < 0)
            raise ValueError(
                f"{entry(f'edge_weights[{i}]', at)} = {given[i][at]:g}: a negative weight is "
                "repulsive, not submodular"
            )
    return _stack([given[i] for i in index], "edge_weights")


def _per_image(values: Any, name: str) -> list[FloatArray]:
    """Return finite arrays, one an image."""
    rows = as_list(values, name, "an array or a list with one entry per image")
    found = [as_float(row, f"{name}[{i}]") for i, row in enumerate(rows)]
    for i, row in enumerate(found):
        _refuse_large(row, f"{name}[{i}]")
    return found


def _stack(rows: list[FloatArray], name: str) -> FloatArray:
    try:
        return np.stack(rows)
    except ValueError:
        raise ValueError(f"{name} differs in shape between images of one shape") from None
