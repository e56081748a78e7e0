"""The images of an experiment: horses from a folder of the user's, or silhouettes drawn here."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from logsuper._base import FloatArray
from logsuper.channels import Flips
from logsuper.datasets import Masks, corrupt, load_weizmann, make_silhouettes

__all__ = ["NOISES", "Setting", "at", "load_setting", "percent", "spread_note"]

NOISES = (0.01, 0.05, 0.1, 0.2)
"""The shares of flipped pixels in the paper's tables."""

# Silhouettes are drawn with this seed; noise has seeds of its own.
_SEED = 0


@dataclasses.dataclass(frozen=True, eq=False)
class Setting:
    """Clean images, split into training and test.

    Attributes
    ----------
    masks : Masks
        All of them, in the order of their names.
    train, test : int
        The first and the last so many are for training and for testing.
    source : str
        Where they come from, in words.
    shipped : bool
        Whether they were drawn here, so that their pictures may be shown anywhere.
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
        """Return what results depend on, as JSON can hold it."""
        return {"fingerprint": self.masks.fingerprint, "train": self.train, "test": self.test}


def percent(noise: float) -> str:
    """Return a noise level as it is shown."""
    return f"{100.0 * noise:g} %"


def at(found: Iterable[bool], noises: Sequence[float]) -> str:
    """Return in words at which of the noise levels something was found."""
    listed = [percent(noise) for noise, hit in zip(noises, found, strict=True) if hit]
    if not listed:
        return "at no noise level"
    if len(listed) == len(noises):
        return "at every noise level"
    return f"at {', '.join(listed)} noise only"


def spread_note(seeds: Sequence[int]) -> str:
    """Return what the cells of a table show for the numbers of some seeds."""
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
    """Return horses from a folder, or silhouettes without one.

    Parameters
    ----------
    data : path, optional
        A folder with the Weizmann horse database.
    train, test : int, default 100
        The first so many images in the order of names, and the last.
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
    masks.split(train, test)  # enough of them?
    return Setting(masks, train, test, "Weizmann horse database", False)
