"""Couplings that depend on the position of a pixel."""

from __future__ import annotations

import numpy as np
import pytest

import logsuper as ls
from logsuper.estimators._mask_examples import position_cuts


@pytest.mark.parametrize("shape", [(5, 8), (1, 7), (4, 3, 5)])
def test_equal_weights_are_one_weight_for_all_positions(shape: tuple[int, ...]) -> None:
    cuts, whole = position_cuts(shape), ls.grid_cuts(shape)
    assert len(cuts) == len(whole) * 3 ** len(shape)
    x = np.random.default_rng(0).integers(0, 2, (20, whole[0].n))
    for cut, parts in zip(whole, np.split(np.arange(len(cuts)), len(whole)), strict=True):
        np.testing.assert_allclose(sum(cuts[k](x) for k in parts), cut(x), atol=1e-12)
        assert all((cuts[k].weights >= 0.0).all() for k in parts)


def test_a_denoiser_learns_where_borders_are(tmp_path) -> None:
    """The left third of all images is noise, the rest is smooth: couplings differ."""
    rng, shape = np.random.default_rng(0), (16, 18)
    clean = np.repeat(rng.integers(0, 2, (30, 1, 1)), 16, axis=1).repeat(18, axis=2)
    clean[:, :, :6] = rng.integers(0, 2, (30, 16, 6))
    noisy = ls.Flips(0.2).sample(clean, seed=1)
    model = ls.MaskDenoiser(
        noise=0.2, neighbors="position", context=0, modular="shared", tol=0.01
    ).fit(noisy, clean)
    down = model.alpha_[9:].reshape(3, 3)  # rows and columns of the bumps
    assert model.alpha_.shape == (18,)
    assert down[:, 0].max() < 0.3 * down[:, 2].min()
    model.save(tmp_path / "model.npz")
    loaded = ls.load_model(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.predict(noisy[:3]), model.predict(noisy[:3]))
    smaller = noisy[:2, : shape[0] // 2]
    assert model.predict(smaller).shape == smaller.shape  # bumps follow the shape


def test_other_words_are_refused() -> None:
    with pytest.raises(ValueError, match="neighbors must be 'position', not 'place'"):
        ls.MaskDenoiser(neighbors="place").fit(np.zeros((2, 4, 4)), np.zeros((2, 4, 4)))
