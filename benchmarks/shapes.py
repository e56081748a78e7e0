"""Shapes for the benchmark of the estimated noise: those for tuning, and others for testing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from scipy.ndimage import gaussian_filter

import logsuper as ls

Masks = NDArray[np.uint8]


def _draw(n: int, seed: int, one: Callable[[np.random.Generator], NDArray[np.bool_]]) -> Masks:
    rng = np.random.default_rng(seed)
    return np.array([one(rng) for _ in range(n)], dtype=np.uint8)


def discs(n: int, seed: int, size: int = 50) -> Masks:
    """Return images of one disc each."""
    y, x = np.indices((size, size)) + 0.5

    def one(rng: np.random.Generator) -> NDArray[np.bool_]:
        radius, (top, left) = rng.uniform(0.16, 0.4), rng.uniform(0.3, 0.7, size=2)
        return np.asarray(np.hypot(y - top * size, x - left * size) < radius * size)

    return _draw(n, seed, one)


def half_planes(n: int, seed: int, size: int = 50) -> Masks:
    """Return half planes: the pixels on one side of a line."""
    y, x = np.indices((size, size)) + 0.5 - size / 2

    def one(rng: np.random.Generator) -> NDArray[np.bool_]:
        angle, shift = rng.uniform(0.0, 2.0 * np.pi), rng.uniform(-0.25, 0.25) * size
        return np.asarray(np.cos(angle) * y + np.sin(angle) * x > shift)

    return _draw(n, seed, one)


def blobs(n: int, seed: int, shape: tuple[int, ...], scale: float) -> Masks:
    """Return the pixels where smoothed noise is positive."""
    return _draw(n, seed, lambda rng: gaussian_filter(rng.normal(size=shape), scale) > 0)


def ellipses(n: int, seed: int, size: int, count: int) -> Masks:
    """Return some ellipses of all sizes, with the colours swapped where two overlap."""
    y, x = np.indices((size, size)) + 0.5

    def one(rng: np.random.Generator) -> NDArray[np.bool_]:
        found = np.zeros((size, size), dtype=bool)
        for _ in range(count):
            angle, (top, left) = rng.uniform(0.0, np.pi), rng.uniform(0.0, size, 2)
            a, b = np.exp(rng.uniform(np.log(0.02), np.log(0.3), 2)) * size
            u = np.cos(angle) * (y - top) + np.sin(angle) * (x - left)
            v = np.cos(angle) * (x - left) - np.sin(angle) * (y - top)
            found ^= np.hypot(u / a, v / b) < 1.0
        return found

    return _draw(n, seed, one)


def polygons(n: int, seed: int, size: int, corners: int) -> Masks:
    """Return images of one star-shaped polygon each."""

    def one(rng: np.random.Generator) -> NDArray[np.bool_]:
        middle = rng.uniform(0.3, 0.7, 2) * size
        angle = np.sort(rng.uniform(0.0, 2.0 * np.pi, corners))
        radius = rng.uniform(0.1, 0.5, corners) * size
        points = middle + radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        picture = Image.new("1", (size, size))
        ImageDraw.Draw(picture).polygon([(x, y) for x, y in points.tolist()], fill=1)
        return np.array(picture)

    return _draw(n, seed, one)


def strokes(n: int, seed: int, size: int, count: int) -> Masks:
    """Return straight strokes one to four pixels wide."""

    def one(rng: np.random.Generator) -> NDArray[np.bool_]:
        picture = Image.new("1", (size, size))
        pen = ImageDraw.Draw(picture)
        for _ in range(count):
            pen.line(rng.uniform(0.0, size, 4).tolist(), fill=1, width=int(rng.integers(1, 5)))
        return np.array(picture)

    return _draw(n, seed, one)


def ising(n: int, seed: int, size: int, coupling: float) -> Masks:
    """Return fields with p(x) proportional to exp(coupling * sum of s_i s_j), s = 2 x - 1."""
    horizontal, vertical = ls.grid_cuts((size, size))
    model = ls.LogSupermodular(2.0 * coupling * horizontal + 2.0 * coupling * vertical)
    drawn = model.sample(n, method="swendsen_wang", seed=seed)
    return drawn.reshape(n, size, size).astype(np.uint8)


def for_training() -> Iterator[tuple[str, Masks]]:
    """Yield the shapes on which the constants of the estimate were tuned."""
    for size in (24, 32, 64, 96):
        yield f"silhouettes, {size}", ls.make_silhouettes(100, shape=(size, size), seed=1000)
    for scale in (1.5, 2.0, 3.0, 4.0):
        yield f"blobs, {scale}", blobs(100, 1000, (64, 64), scale)
    for count in (2, 8):
        yield f"{count} ellipses", ellipses(200, 1000, 50, count)
    for corners in (6, 16):
        yield f"{corners} corners", polygons(200, 1000, 50, corners)
    for count in (2, 6):
        yield f"{count} strokes", strokes(200, 1000, 50, count)
    for scale in (1.0, 1.5, 2.5):
        yield f"volumes, {scale}", blobs(4, 1000, (48, 48, 48), scale)
    for scale in (1.5, 3.0, 5.0):
        yield f"chains, {scale}", blobs(200, 1000, (500,), scale)
