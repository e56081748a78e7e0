"""Procedural silhouettes of four-legged animals, drawn with numpy alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from logsuper._base import Seed, as_generator, check_integer

# The skeleton's frame: x towards the head, y up, angles in radians, 0.9 from shoulder to hip.
_BLEND = 0.016  # how softly two limbs melt into each other
_SUBPIXELS = 4  # supersampling along each axis
_LARGEST = 2**15  # pixels along each axis

Point = NDArray[np.float64]
Limb = tuple[Point, Point, float, float]  # a tapered capsule: both ends, and the radius at each


def make_silhouettes(
    n_samples: int = 10, shape: tuple[int, int] = (50, 50), seed: Seed = 0
) -> NDArray[np.uint8]:
    """Draw silhouettes of four-legged animals, each in its own build and pose.

    An animal is a skeleton of tapered capsules (trunk, neck, head, ears, four legs of two segments
    each, tail). Its proportions, the phase and width of its stride, the carriage of neck and tail,
    its size, place and direction are drawn at random. A pixel is 1 where at least half of it is
    covered.

    Parameters
    ----------
    n_samples : int, default=10
        Number of images.
    shape : tuple of two ints, default=(50, 50)
        Height and width in pixels, each at least 16: in smaller images legs merge.
    seed : int, numpy Generator or None, default=0
        Where the randomness comes from. The same integer gives the same animals, at any shape.

    Returns
    -------
    ndarray of uint8, shape (n_samples, height, width)
        1 inside the animal, 0 outside. Each animal is one connected piece that touches no border.

    Examples
    --------
    >>> import logsuper as ls
    >>> images = ls.make_silhouettes(3, shape=(32, 48), seed=0)
    >>> images.shape, images.dtype, sorted(set(images.ravel().tolist()))
    ((3, 32, 48), dtype('uint8'), [0, 1])
    """
    try:
        height, width = shape
    except (TypeError, ValueError):
        raise ValueError(f"shape must be a pair (height, width), got {shape!r}") from None
    check_integer(height, "shape: the height", 16, _LARGEST)
    check_integer(width, "shape: the width", 16, _LARGEST)
    # One child stream per animal: image i does not depend on n.
    streams = as_generator(seed).spawn(check_integer(n_samples, "n_samples", 0, 2**31))
    images = np.empty((n_samples, height, width), dtype=np.uint8)
    for image, rng in zip(images, streams, strict=True):
        image[...] = _draw(*_fit(*_animal(rng), height, width, rng), height, width)
    return images


def _ray(origin: Point, angle: float, length: float) -> Point:
    """Return the point at `length` from `origin`, `angle` counted from straight ahead, upwards."""
    return origin + length * np.array([np.cos(angle), np.sin(angle)])


def _animal(rng: np.random.Generator) -> tuple[Point, Point]:
    """Draw one skeleton around the origin, then tilt it and choose which way it looks.

    Returns the ends (L, 2, 2) and the radii (L, 2) of its limbs.
    """
    shoulder, hip = np.array([0.45, 0.0]), np.array([-0.45, rng.uniform(-0.01, 0.05)])
    girth = rng.uniform(0.9, 1.12)
    chest, loin, rump = 0.27 * girth, 0.235 * girth, 0.26 * girth
    middle = (shoulder + hip) / 2 - np.array([0.0, 0.02])
    limbs = [
        (shoulder, middle, chest, loin),
        (middle, hip, loin, rump),
        *_head_and_neck(rng, shoulder, chest),
        *_tail(rng, hip, rump),
        *_legs(rng, shoulder, hip, girth),
    ]
    tilt = rng.normal(0.0, 0.05)
    turn = np.array([[np.cos(tilt), -np.sin(tilt)], [np.sin(tilt), np.cos(tilt)]])
    mirror = np.array([rng.choice([-1.0, 1.0]), 1.0])
    ends = [[mirror * (turn @ point) for point in limb[:2]] for limb in limbs]
    return np.array(ends), np.array([limb[2:] for limb in limbs])


def _head_and_neck(rng: np.random.Generator, shoulder: Point, chest: float) -> list[Limb]:
    grazing = rng.random() < 0.15
    lift = rng.uniform(-0.85, -0.6) if grazing else rng.uniform(0.6, 1.15)
    length = rng.uniform(0.5, 0.66) + 0.15 * grazing
    root = _ray(shoulder, 0.9, 0.45 * chest)
    poll = _ray(root, lift, length)
    crest = _ray((root + poll) / 2, lift + np.pi / 2, 0.03)
    nod = lift - rng.uniform(1.25, 1.6) if not grazing else rng.uniform(-1.5, -1.1)
    muzzle = _ray(poll, nod, rng.uniform(0.31, 0.38))
    cheek = _ray(poll, nod, 0.07)
    ear_root = _ray(poll, nod + np.pi / 2, 0.04)
    ear_tip = _ray(ear_root, nod + rng.uniform(1.7, 2.3), rng.uniform(0.12, 0.16))
    return [
        (root, crest, 0.78 * chest, 0.125),
        (crest, poll, 0.125, 0.085),
        (cheek, muzzle, 0.11, 0.066),
        (ear_root, ear_tip, 0.045, 0.018),
    ]


def _tail(rng: np.random.Generator, hip: Point, rump: float) -> list[Limb]:
    root = _ray(hip, np.pi - 0.75, 0.92 * rump)
    carried = rng.uniform(0.0, 1.0)  # 0 hangs, 1 streams behind
    heading = np.pi + 0.25 + 0.9 * (1.0 - carried)
    step = rng.uniform(0.18, 0.24)
    limbs = []
    radii = (0.055, 0.07, 0.075, 0.035)
    for i in range(3):
        tip = _ray(root, heading, step)
        limbs.append((root, tip, radii[i], radii[i + 1]))
        root, heading = tip, heading + rng.uniform(0.1, 0.35)
    return limbs


def _legs(rng: np.random.Generator, shoulder: Point, hip: Point, girth: float) -> list[Limb]:
    """Four legs somewhere in the cycle of a gait, with a stride from standing to a run."""
    stride = rng.uniform(0.15, 0.6)
    phase = rng.uniform(0.0, 2.0 * np.pi)
    # Walk, trot and canter: where in the cycle are near fore, far fore, near hind and far hind?
    gaits = ((0.0, 0.5, 0.25, 0.75), (0.0, 0.5, 0.5, 0.0), (0.0, 0.18, 0.45, 0.63))
    lags = gaits[rng.integers(len(gaits))]
    upper = rng.uniform(0.46, 0.54)
    lower = rng.uniform(0.44, 0.54)
    bulk = rng.uniform(0.85, 1.1)
    down = -np.pi / 2
    limbs = []
    for leg, lag in enumerate(lags):
        swing = phase + 2.0 * np.pi * (lag + rng.normal(0.0, 0.02))
        reach = stride * np.sin(swing)
        fold = 1.5 * stride * max(0.0, np.cos(swing))  # the knee bends while the leg comes forward
        aside = 0.045 if leg % 2 == 0 else -0.045
        if leg < 2:  # a foreleg
            top, thigh, joint, shin = shoulder + np.array([aside - 0.03, -0.1]), 0.16, 0.078, 0.066
            knee = _ray(top, down + reach, upper)
            hoof = _ray(knee, down + reach - fold, lower)
        else:
            top, thigh, joint, shin = hip + np.array([aside, -0.06]), 0.21, 0.082, 0.068
            knee = _ray(top, down + reach - 0.22, upper + 0.02)
            hoof = _ray(knee, down + reach + 0.12 - 0.8 * fold, lower)
        toe = hoof + np.array([0.05, 0.0])
        limbs.append((top, knee, thigh * girth, joint * bulk))
        limbs.append((knee, hoof, shin * bulk, 0.052 * bulk))
        limbs.append((hoof, toe, 0.058 * bulk, 0.048 * bulk))
    return limbs


def _fit(
    ends: Point, radii: Point, height: int, width: int, rng: np.random.Generator
) -> tuple[Point, Point, float]:
    """Scale and move the skeleton into the frame: pixel coordinates, x right, y down.

    Returns the ends, the radii, and the length over which limbs melt into each other.
    """
    low = (ends - radii[..., None]).min(axis=(0, 1)) - _BLEND
    high = (ends + radii[..., None]).max(axis=(0, 1)) + _BLEND
    frame = np.array([width, height]) - 4.0  # two pixels of air on each side
    scale = rng.uniform(0.82, 1.0) * float((frame / (high - low)).min())
    place = 2.0 + (frame - scale * (high - low)) * rng.uniform(0.0, 1.0, size=2)
    pixels = place + scale * (ends - low)
    pixels[..., 1] = height - pixels[..., 1]
    # a thinner leg would break up between pixels
    return pixels, np.maximum(scale * radii, 0.75), _BLEND * scale


def _draw(ends: Point, radii: Point, blend: float, height: int, width: int) -> NDArray[np.bool_]:
    """Rasterise the smooth union {p : sum over limbs of exp(-distance(p) / blend) >= 1}."""
    fine = _SUBPIXELS
    total = np.zeros((height * fine, width * fine))
    xs = (np.arange(width * fine) + 0.5) / fine
    ys = (np.arange(height * fine) + 0.5) / fine
    for (start, end), (first, last) in zip(ends, radii, strict=True):
        reach = max(first, last) + 4.0 * blend
        left, top = np.minimum(start, end) - reach
        right, bottom = np.maximum(start, end) + reach
        columns = slice(*np.searchsorted(xs, (left, right)))
        rows = slice(*np.searchsorted(ys, (top, bottom)))
        dx, dy = xs[None, columns] - start[0], ys[rows, None] - start[1]
        ax, ay = end - start
        t = np.clip((dx * ax + dy * ay) / max(ax * ax + ay * ay, 1e-12), 0.0, 1.0)
        distance = np.hypot(dx - t * ax, dy - t * ay) - (first + t * (last - first))
        total[rows, columns] += np.exp(np.minimum(-distance / blend, 20.0))
    inside = (total >= 1.0).reshape(height, fine, width, fine)
    return np.asarray(inside.mean(axis=(1, 3)) >= 0.5)
