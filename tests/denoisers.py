"""Small denoisers and images for their tests."""

import numpy as np

import logsuper as ls

SHAPE = (16, 16)


def quick(*args, **params):
    """Return a denoiser that stops early."""
    return ls.MaskDenoiser(*args, **{"max_iter": 25, "n_samples": 20, "context": 0, **params})


def make_pairs(count, shape=SHAPE, rate=0.1, seed=0):
    clean = ls.make_silhouettes(count, shape=shape, seed=seed)
    return ls.Flips(rate).sample(clean, seed=seed + 100).astype(np.uint8), clean
