"""Factors on edges by contrast."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import logsuper as ls
from logsuper.learning import contrast_weights


def all_edges(shape: tuple[int, ...]) -> np.ndarray:
    neighbors = {2: 8, 3: 26}[len(shape)]
    return np.concatenate([cut.edges for cut in ls.grid_cuts(shape, neighbors=neighbors)])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("channels", [0, 1, 3])
def test_formula(seed: int, channels: int) -> None:
    rng = np.random.default_rng(seed)
    edges, scales = all_edges((4, 5)), (0.3, 1.0, 4.0)
    image = rng.normal(size=(20, channels) if channels else 20)
    squares = [float(np.sum((image[i] - image[j]) ** 2)) for i, j in edges]
    mean = sum(squares) / len(squares)
    wanted = [[np.exp(-d / (2 * s**2 * mean)) for d in squares] for s in scales]
    np.testing.assert_allclose(contrast_weights(image, edges, scales), wanted, rtol=1e-12)


@given(exponent=st.integers(-900, 900), offset=st.floats(-5, 5), seed=st.integers(0, 99))
def test_the_unit_of_the_image_does_not_matter(exponent: int, offset: float, seed: int) -> None:
    image = np.random.default_rng(seed).normal(size=(12, 2))
    edges = all_edges((3, 4))
    found = contrast_weights(np.ldexp(image + offset, exponent), edges)
    np.testing.assert_allclose(found, contrast_weights(image, edges), rtol=1e-9)


def test_a_constant_image_has_factors_one_and_a_volume_works() -> None:
    edges = all_edges((2, 3, 3))
    assert (contrast_weights(np.full(18, 7.0), edges, (0.1, 1.0)) == 1.0).all()
    assert contrast_weights(np.arange(18.0), edges, 2.0).shape == (1, len(edges))
    assert contrast_weights(np.arange(18.0), np.empty((0, 2)), (1, 2, 3)).shape == (3, 0)


def test_a_few_pieces_are_the_same_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from logsuper.learning import _contrast

    image, edges = np.random.default_rng(0).normal(size=(30, 3)), all_edges((5, 6))
    whole = contrast_weights(image, edges)
    monkeypatch.setattr(_contrast, "_PIECE", 7)
    assert (contrast_weights(image, edges) == whole).all()


def test_learned_weights_use_the_contrast() -> None:
    """An edge of the image is the place where labels change, and the learned cut says so."""
    from logsuper.learning import Penalty, make_examples, max_margin, modes

    rng = np.random.default_rng(0)
    masks = np.asarray(ls.make_silhouettes(6, shape=(16, 16), seed=1), dtype=float)
    images = masks + 0.05 * rng.normal(size=masks.shape)
    evidence = (2 * masks - 1) + 2.0 * rng.normal(size=masks.shape)
    cuts = ls.grid_cuts((16, 16))
    edges = ls.prepare(cuts).edges
    weights = np.stack([contrast_weights(im.ravel(), edges) for im in images])
    errors = []
    for factors in (None, weights.repeat(2, axis=1)):
        data = make_examples(
            cuts, labels=masks, features=evidence[..., None], edge_weights=factors, modular="none"
        )
        theta = max_margin(data, Penalty.of(data.layout, alpha=1e-3, beta=1e-3)).theta
        errors.append(np.mean(np.asarray(modes(data, theta)) != masks))
    assert errors[1] < 0.7 * errors[0]


@pytest.mark.parametrize(
    ("image", "edges", "scales", "message"),
    [
        (np.zeros((2, 2, 1)), [[0, 1]], 1.0, "one row per pixel"),
        ([0.0, np.nan], [[0, 1]], 1.0, r"image\[1\] = nan"),
        ([0.0, 1.0], [[0, 2]], 1.0, r"edges\[0, 1\] = 2 is outside"),
        ([0.0, 1.0], [0, 1], 1.0, r"edges must have shape \(E, 2\)"),
        ([0.0, 1.0], [[0, 1]], (1.0, 0.0), r"scales\[1\] = 0: a scale must be positive"),
        ([0.0, 1.0], [[0, 1]], [[1.0]], "scales must be one-dimensional"),
    ],
)
def test_bad_input(image: object, edges: object, scales: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        contrast_weights(image, edges, scales)
