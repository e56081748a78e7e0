"""Other programs that segment a photograph from scribbles, each with a small grid of its constants.

scikit-image's random walker (L. Grady 2006), OpenCV's GrabCut (C. Rother et al. 2004) and
pydensecrf2 (P. Krähenbühl and V. Koltun 2011). A peer returns the probability that each pixel is
object; GrabCut, which has none, returns its mask. Results are kept in a folder, since they do not
depend on folds: `benchmarks.segment` chooses the constants.
"""

from __future__ import annotations

import hashlib
import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.mixture import GaussianMixture

Run = Callable[..., np.ndarray]


class Peer(NamedTuple):
    """A program: how it is called, its grid, and whether it gives probabilities.

    `pixels` is the size of the largest photographs on which its grid is tried; others only have
    the chosen point.
    """

    name: str
    run: Run
    grid: list[dict[str, Any]]
    probabilities: bool
    pixels: int = 2**31


def _grid(**values: tuple[Any, ...]) -> list[dict[str, Any]]:
    return [dict(zip(values, point, strict=True)) for point in itertools.product(*values.values())]


def random_walker(image: np.ndarray, scribbles: np.ndarray, beta: float) -> np.ndarray:
    """Return the probability that a random walk from each pixel meets the object first."""
    from skimage.segmentation import random_walker as walk

    labels = scribbles.astype(np.int32)
    found = walk(
        image, labels, beta=beta, mode="cg_j", tol=1e-3, channel_axis=-1, return_full_prob=True
    )
    return np.asarray(found[0], dtype=np.float64)


def grabcut(image: np.ndarray, scribbles: np.ndarray, rounds: int) -> np.ndarray:
    """Return the mask; pixels without a scribble are first taken for probable background."""
    import cv2

    cv2.setRNGSeed(0)
    mask = np.full(scribbles.shape, cv2.GC_PR_BGD, dtype=np.uint8)
    mask[scribbles == 1], mask[scribbles == 2] = cv2.GC_FGD, cv2.GC_BGD
    models = np.zeros((1, 65)), np.zeros((1, 65))
    bgr = np.ascontiguousarray(image[..., ::-1])
    cv2.grabCut(bgr, mask, None, *models, rounds, cv2.GC_INIT_WITH_MASK)
    return ((mask == cv2.GC_FGD) | (mask == cv2.GC_PR_FGD)).astype(np.float64)


def dense_crf(image: np.ndarray, scribbles: np.ndarray, unary: str, colour: float) -> np.ndarray:
    """Return mean-field probabilities; the constants not given are those of its own example.

    Its unary is that of scribbles ("labels"), or that and Gaussian mixtures of the scribbled
    colours ("mixtures").
    """
    from pydensecrf import densecrf
    from pydensecrf.utils import unary_from_labels

    height, width = scribbles.shape
    flat = scribbles.ravel().astype(np.int32)
    energy = unary_from_labels(flat, 2, gt_prob=0.99, zero_unsure=True)
    if unary == "mixtures":
        rows = image.reshape(-1, 3) / 255.0
        free = flat == 0
        logs = [_mixture(rows[flat == k]).score_samples(rows[free]) for k in (1, 2)]
        odds = np.clip(logs[0] - logs[1], -4.0, 4.0)
        energy[0, free], energy[1, free] = np.logaddexp(0.0, -odds), np.logaddexp(0.0, odds)
    crf = densecrf.DenseCRF2D(width, height, 2)
    crf.setUnaryEnergy(np.array(energy, dtype=np.float32, order="C"))
    crf.addPairwiseGaussian(sxy=3, compat=3)
    crf.addPairwiseBilateral(sxy=80, srgb=colour, rgbim=np.array(image, dtype=np.uint8), compat=10)
    q = np.asarray(crf.inference(5), dtype=np.float64)[0].reshape(height, width)
    return np.where(scribbles == 1, 1.0, np.where(scribbles == 2, 0.0, q))


def _mixture(rows: np.ndarray) -> GaussianMixture:
    chosen = np.random.default_rng(0).permutation(len(rows))[:1000]
    count = min(5, len(np.unique(rows[chosen], axis=0)))
    return GaussianMixture(count, reg_covar=1e-4, random_state=0).fit(rows[chosen])


PEERS = [
    Peer("random walker", random_walker, _grid(beta=(130.0, 1000.0, 8000.0)), True, 160_000),
    Peer("GrabCut", grabcut, _grid(rounds=(3, 8, 16)), False),
    Peer(
        "dense CRF",
        dense_crf,
        _grid(unary=("labels",), colour=(2.0, 4.0, 8.0))
        + _grid(unary=("mixtures",), colour=(8.0, 20.0)),
        True,
    ),
]


def available() -> tuple[list[Peer], list[str]]:
    """Return the peers that can be imported, and the names of the others."""
    modules = {"random walker": "skimage", "GrabCut": "cv2", "dense CRF": "pydensecrf"}
    found, absent = [], []
    for peer in PEERS:
        try:
            __import__(modules[peer.name])
            found.append(peer)
        except ImportError:
            absent.append(peer.name)
    return found, absent


def run_cached(
    peer: Peer, point: dict[str, Any], image: np.ndarray, scribbles: np.ndarray, folder: Path
) -> tuple[np.ndarray, float]:
    """Return the result and the seconds of processor time that it took, kept in a folder."""
    digest = hashlib.sha256(image.tobytes() + scribbles.tobytes())
    digest.update(repr((peer.name, sorted(point.items()))).encode())
    file = folder / f"{digest.hexdigest()[:24]}.npz"
    if file.exists():
        with np.load(file) as kept:
            return kept["p"].astype(np.float64), float(kept["seconds"])
    start = time.process_time()
    p = peer.run(image, scribbles, **point)
    seconds = time.process_time() - start
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(file, p=p.astype(np.float32), seconds=seconds)
    return p, seconds
