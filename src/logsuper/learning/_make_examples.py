"""From what users have, arrays and lists of images, to `Examples`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logsuper._base import (
    FloatArray,
    IntArray,
    as_array,
    as_float,
    as_list,
    check_choice,
    check_flag,
    check_integer,
    entry,
    first_index,
    refuse,
)
from logsuper.channels import Channel
from logsuper.functions import SubmodularFunction
from logsuper.learning._examples import UNKNOWN, Codes, Examples, Group, Rows, refuse_large
from logsuper.learning._features import Context, Dense, Features, Judge, Judged
from logsuper.learning._layout import Layout
from logsuper.learning._lazy_images import (
    BINARY,
    FINITE,
    ImageRows,
    LazyImages,
    LazyRows,
    count_images,
    is_lazy,
    shapes_of,
)
from logsuper.solvers import Prepared, prepare

Functions = Sequence[SubmodularFunction]

MODULAR = ("pixel", "shared", "none")


def make_examples(
    functions: Functions | Callable[[tuple[int, ...]], Functions],
    *,
    labels: Any = None,
    observed: Any = None,
    channel: Channel | None = None,
    modular: str = "pixel",
    features: Any = None,
    context: int = 0,
    judge: Judge | None = None,
    edge_weights: Any = None,
    scale: bool = False,
) -> Examples:
    r"""Gather training data.

    Parameters
    ----------
    functions : sequence of SubmodularFunction, or callable
        :math:`f_1,\dots,f_K`; or what returns them for the shape of an image, where shapes differ.
    labels : array-like (N, ...) or sequence of arrays, optional
        The x: 0 or 1, NaN or masked where there is no label. Items of a sequence that reads them
        when they are indexed (`logsuper.io.ImageFiles`, a memory map, zarr) beyond 256 MB are read
        again for each batch, and must not change.
    observed : array-like (N, ...) or sequence of arrays, optional
        What was observed of each x, NaN or masked where nothing was; read like `labels`.
    channel : Channel, optional
        The model of `observed`.
    modular : {"pixel", "shared", "none"}
        The modular term t: one number per pixel, one for all, or none. Beside `context` or a
        `judge`, one for all counts only where something was observed in the window around the
        pixel, so that it does not add up over wide gaps: there the functions alone decide.
    features : array-like (N, ..., p) or list of arrays, optional
        What else is known of each pixel, such as the log-odds that a classifier gives it; weighed
        by learned coefficients, :math:`t=\Phi\beta`. Enough on their own for decoding.
    context : int
        Instead of `features`, what was observed in a window of that radius around each pixel, the
        pixel itself left out: the learned coefficients are a linear filter.
    judge : callable, optional
        Beside `context`, one more feature: ``judge(numbers, log_odds)`` returns what the
        surroundings of each pixel say about it, (B, n), such as the log-odds of a classifier, given
        the numbers of some examples and the log-odds (B, ...) of their observations. It is called
        again whenever these change.
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
        raise ValueError("observed needs a channel, the model of its noise")
    if channel is not None and not isinstance(channel, Channel):
        raise TypeError(
            f"channel must be a channel, such as Flips(0.1), got a {type(channel).__name__}"
        )
    if scale and observed is None:
        raise ValueError("scale=True learns a factor on observations; give observed")
    for name, asked in (("context", context), ("judge", judge is not None)):
        if asked and (features is not None or observed is None):
            raise ValueError(f"{name} takes the place of features, and needs observed")
    if judge is not None and not callable(judge):
        raise TypeError(f"judge must be callable, got a {type(judge).__name__}")
    check_flag(scale, "scale")
    radius = check_integer(context, "context", 0, 64)
    x = None if labels is None else as_images(labels, "labels")
    z = None if observed is None else as_images(observed, "observed")
    if x is not None and z is not None:
        check_alike(x, "labels", z, "observed")
    images = z if x is None else x
    phi = _per_image(features, "features", None if images is None else len(images))
    shapes = _shapes(phi) if images is None else shapes_of(images)
    if modular == "pixel" and len(set(shapes)) > 1:
        raise ValueError(
            f"modular='pixel' needs images of one shape, but image 0 has {shapes[0]} and another "
            f"{next(s for s in shapes if s != shapes[0])}; use modular='shared'"
        )
    factors = _per_image(edge_weights, "edge_weights", len(shapes))
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
        known = None if x is None else _label_codes(x, index)
        seen = None if z is None else _observed_codes(z, index, n)
        own = None if factors is None else _edge_factors(factors, index, prepared)
        made = _features(phi, index, shape, radius, judge)
        groups.append(Group(shape, prepared, index, known, seen, made, own))
    counts = {len(group.prepared.functions) for group in groups}
    if len(counts) > 1:
        raise ValueError(f"functions returns {sorted(counts)} functions for different shapes")
    widths = {group.features.size for group in groups if group.features is not None} or {0}
    if len(widths) > 1:
        raise ValueError(f"features has {sorted(widths)} columns in different images")
    size = {"pixel": groups[0].prepared.n, "shared": 1, "none": 0}[modular]
    layout = Layout(counts.pop(), size, widths.pop(), scale, judge is not None)
    return Examples(tuple(groups), layout, None).with_channel(channel)


def with_inputs(examples: Examples, features: Any = None, edge_weights: Any = None) -> Examples:
    """Return the same examples with other features and factors on edges; None keeps what is there.

    Both are given as to `make_examples`, and checked in the same way.
    """
    phi = _per_image(features, "features", examples.count)
    factors = _per_image(edge_weights, "edge_weights", examples.count)
    groups = []
    for group in examples.groups:
        if phi is not None:
            made = _features(phi, group.index, group.shape, 0)
            if made is not None and made.size != examples.layout.features:
                raise ValueError(
                    f"features has {made.size} columns, but the examples have "
                    f"{examples.layout.features}"
                )
            group = dataclasses.replace(group, features=made)
        if factors is not None:
            own = _edge_factors(factors, group.index, group.prepared)
            group = dataclasses.replace(group, edge_weights=own)
        groups.append(group)
    return dataclasses.replace(examples, groups=tuple(groups))


def corrupt_again(examples: Examples, clean: Sequence[Rows], rng: np.random.Generator) -> Examples:
    """Return the clean images as labels, with new noise, and missing what was missing before."""
    channel = examples.channel
    assert channel is not None

    def observe(group: Group, x: Rows) -> Rows:
        assert group.observed is not None
        z = group.room(group.observed.dtype)
        for rows in group.pieces():
            shape = (len(rows), *group.shape)
            again = channel.sample_like(group.images(rows), x[rows].reshape(shape), rng)
            z[rows] = group.encode(again.reshape(len(rows), -1))
        return z

    observed = [observe(group, x) for group, x in zip(examples.groups, clean, strict=True)]
    return examples.with_observed(observed, clean)


def join_examples(parts: Sequence[tuple[Examples, IntArray]]) -> Examples:
    """Return one set of examples, made of some with the same layout and without a channel.

    Parameters
    ----------
    parts : sequence of (Examples, ndarray of int)
        Examples, and their places, in increasing order, among all. Those of one part may have
        another graph than those of another part with the same shape.
    """
    groups = [
        dataclasses.replace(group, index=places[group.index])
        for examples, places in parts
        for group in examples.groups
    ]
    layouts = {examples.layout for examples, _ in parts}
    if len(layouts) > 1:
        raise ValueError(f"examples of different layouts cannot be joined: {layouts}")
    return Examples(tuple(groups), layouts.pop(), None)


# ------------------------------------------------------------------------------------------ inside


def _refuse_large_functions(prepared: Prepared) -> None:
    """Raise for a function with values that learners could not square and sum.

    By submodularity the gains at 0 and the value at 1 bound all others, up to a factor of n.
    """
    zero = np.zeros(prepared.n)
    for k, f in enumerate(prepared.functions):
        refuse_large(np.append(f.gains(zero), f(1.0 - zero)), f"the gain of functions[{k}]")


def as_images(images: Any, name: str) -> Sequence[NDArray[Any]]:
    """Return a list of arrays, masked entries as NaN; a stack is not copied.

    Lazy sequences that are not small stay lazy.
    """
    if is_lazy(images) and count_images(images):
        found = images
        if not isinstance(images, LazyImages):
            found = LazyImages(images, name, _as_image)
        return list(found) if found.complete else found
    if not isinstance(images, np.ndarray) and not isinstance(images, list | tuple):
        images = as_array(images, name)
    if isinstance(images, np.ndarray) and images.ndim < 2:
        raise ValueError(f"{name} must hold images, at least one per row, got shape {images.shape}")
    if not len(images):
        raise ValueError(f"{name} is empty; give at least one image")
    return [_as_image(image, f"{name}[{i}]") for i, image in enumerate(images)]


def _as_image(image: Any, name: str) -> NDArray[Any]:
    if isinstance(image, np.ma.MaskedArray):
        image = np.ma.filled(image.astype(np.float64), np.nan)
    array = as_array(image, name)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold numbers, got dtype {array.dtype}")
    return array


def check_alike(
    a: Sequence[NDArray[Any]], name: str, b: Sequence[NDArray[Any]], other: str
) -> None:
    """Refuse two lists of images that differ in length, or in the shape of an image."""
    if len(a) != len(b):
        raise ValueError(f"{name} has {len(a)} images, {other} {len(b)}")
    for i, (x, y) in enumerate(zip(shapes_of(a), shapes_of(b), strict=True)):
        if x != y:
            raise ValueError(f"{name}[{i}] has shape {x}, {other}[{i}] {y}")


def _shapes(phi: list[FloatArray] | None) -> list[tuple[int, ...]]:
    """Return the shapes of images that are given by their features alone."""
    if not phi:
        raise ValueError("features is empty; give at least one image")
    for i, rows in enumerate(phi):
        if rows.ndim < 2:
            raise ValueError(f"features[{i}] has shape {rows.shape}; give one row per pixel")
    return [rows.shape[:-1] for rows in phi]


def _label_codes(images: Sequence[NDArray[Any]], index: IntArray) -> Rows:
    if isinstance(images, LazyImages):
        for i in () if images.have(BINARY, index) else index.tolist():
            _label(images[i], i)
        n = math.prod(images.shapes[index[0]])
        return LazyRows(ImageRows(images, n, np.uint8, _label), index)
    return np.stack([_label(images[i], i).ravel() for i in index.tolist()])


def _label(image: NDArray[Any], i: int) -> Codes:
    return as_codes(image, f"labels[{i}]", "a pixel without a label is NaN")


def as_codes(image: NDArray[Any], name: str, remedy: str) -> Codes:
    if image.dtype == np.bool_:
        return image.view(np.uint8)
    unknown = np.isnan(image) if image.dtype.kind == "f" else np.zeros(image.shape, dtype=bool)
    bad = ~unknown & (image != 0) & (image != 1)
    if bad.any():
        at = first_index(bad)
        raise ValueError(f"{entry(name, at)} = {image[at]} is neither 0 nor 1; {remedy}")
    return np.where(unknown, UNKNOWN, image == 1).astype(np.uint8)


def _observed_codes(images: Sequence[NDArray[Any]], index: IntArray, n: int) -> Rows:
    """Return one byte per pixel where all is 0, 1 or missing, else eight."""
    if isinstance(images, LazyImages):
        if images.have(BINARY, index):
            return LazyRows(ImageRows(images, n, np.uint8, _bits), index)
        for i in () if images.have(FINITE, index) else index.tolist():
            _refuse_infinite(images[i], i)
        return LazyRows(ImageRows(images, n, np.float64, _grey), index)
    if all(_is_binary(images[i]) for i in index):
        return np.stack([_bits(images[i], i).ravel() for i in index.tolist()])
    grey = np.empty((len(index), n))
    for row, i in enumerate(index):
        grey[row] = images[i].ravel()
        _refuse_infinite(grey[row], i)
    return grey


def _refuse_infinite(image: NDArray[Any], i: int) -> None:
    if image.dtype.kind == "f" and np.isinf(image).any():
        raise ValueError(f"observed[{i}] has an infinite entry; NaN means missing")


def _bits(image: NDArray[Any], i: int) -> Codes:
    return as_codes(image, f"observed[{i}]", "")


def _grey(image: NDArray[Any], i: int) -> NDArray[Any]:
    return image


def _is_binary(image: NDArray[Any]) -> bool:
    return image.dtype == np.bool_ or bool(np.all((image == 0) | (image == 1) | (image != image)))


def _features(
    given: list[FloatArray] | None,
    index: IntArray,
    shape: tuple[int, ...],
    radius: int,
    judge: Judge | None = None,
) -> Features | None:
    if judge is not None:
        return Judged(Context(shape, radius), judge, index)
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
        why = "a negative weight is repulsive, not submodular"
        refuse(given[i] < 0, given[i], f"edge_weights[{i}]", why)
    return _stack([given[i] for i in index], "edge_weights")


def _per_image(values: Any, name: str, count: int | None) -> list[FloatArray] | None:
    """Return finite arrays, one for each of `count` images if that is known; None stays None."""
    if values is None:
        return None
    rows = as_list(values, name, "an array or a list with one entry per image")
    if count is not None and len(rows) != count:
        raise ValueError(f"{name} is for {len(rows)} images, but there are {count}")
    found = [as_float(row, f"{name}[{i}]") for i, row in enumerate(rows)]
    for i, row in enumerate(found):
        refuse_large(row, f"{name}[{i}]")
    return found


def _stack(rows: list[FloatArray], name: str) -> FloatArray:
    try:
        return np.stack(rows)
    except ValueError:
        raise ValueError(f"{name} differs in shape between images of one shape") from None
