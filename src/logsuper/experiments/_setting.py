"""The images of an experiment: Weizmann horses from a folder, or synthetic silhouettes."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from logsuper._base import FloatArray
from logsuper.channels import Flips
from logsuper.datasets import Masks, corrupt, load_weizmann, make_silhouettes

NOISES = (0.01, 0.05, 0.1, 0.2)
"""The probabilities of a flipped pixel in the paper's tables."""

# Seed of the silhouettes; the noise has seeds of its own.
_SEED = 0


@dataclasses.dataclass(frozen=True, eq=False)
class Setting:
    """Clean images, split into training and test.

    Attributes
    ----------
    masks : Masks
        All images, in the order of their names.
    train, test : int
        Numbers of images: the first ones are for training, the last ones for testing.
    source : str
        Description of their origin.
    shipped : bool
        Whether they are synthetic, so that pictures of them may be published.
    """

    masks: Masks
    train: int
    test: int
    source: str
    shipped: bool

    @property
    def clean(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Clean images for training and for testing."""
        return self.masks.split(self.train, self.test)

    def noisy(self, noise: float, seed: int) -> tuple[FloatArray, FloatArray]:
        """Return noisy images for training and for testing."""
        observed = corrupt(self.masks.images, Flips(noise), seed)
        return observed[: self.train], observed[-self.test :]

    def arguments(self) -> dict[str, object]:
        """Return what results depend on, as JSON values."""
        return {"fingerprint": self.masks.fingerprint, "train": self.train, "test": self.test}


def percent(noise: float) -> str:
    """Return a noise level as text."""
    return f"{100.0 * noise:g} %"


def at(found: Iterable[bool], noises: Sequence[float]) -> str:
    """Return a phrase that lists the noise levels for which `found` is true."""
    listed = [percent(noise) for noise, hit in zip(noises, found, strict=True) if hit]
    if not listed:
        return "at no noise level"
    if len(listed) == len(noises):
        return "at every noise level"
    return f"at {', '.join(listed)} noise only"


def spread_note(seeds: Sequence[int]) -> str:
    """Return a phrase that says how table cells summarise the numbers of several seeds."""
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    return f"mean ± standard deviation over {len(seeds)} seeds of the noise"


def load_setting(
    data: str | os.PathLike[str] | None = None,
    *,
    train: int = 100,
    test: int = 100,
    shape: tuple[int, int] = (50, 50),
) -> Setting:
    """Return the Weizmann horses from a folder, or synthetic silhouettes.

    Parameters
    ----------
    data : path, optional
        Folder with the Weizmann horse database; silhouettes are drawn by default.
    train, test : int, default 100
        Numbers of images: the first in the order of names, and the last.
    shape : pair of int, default (50, 50)

    Returns
    -------
    Setting

    Examples
    --------
    >>> from logsuper.experiments import load_setting
    >>> setting = load_setting(train=3, test=2, shape=(20, 20))
    >>> setting.clean[1].shape, setting.shipped
    ((2, 20, 20), True)
    """
    if data is None:
        images = make_silhouettes(train + test, shape, _SEED)
        names = tuple(f"silhouette{i:03d}" for i in range(train + test))
        source = f"silhouettes that ship with the package (seed {_SEED})"
        return Setting(Masks(images, names), train, test, source, True)
    masks = load_weizmann(data, shape)
    masks.split(train, test)  # raises an error if there are too few images
    return Setting(masks, train, test, "Weizmann horse database", False)
