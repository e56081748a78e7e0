"""Pixels that the model itself cannot decide: their certified interval holds one half."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from logsuper.estimators import MaskDenoiser
    from logsuper.model import LogSupermodular

NO_INTERVALS = (
    "certified intervals are for images with 4 neighbours; leave it out, or clean volumes by "
    "--volume slices"
)


def posterior(denoiser: MaskDenoiser, image: NDArray[Any]) -> LogSupermodular:
    """Return the model of the clean mask given one noisy image, as `MaskDenoiser` defines it.

    Parameters
    ----------
    denoiser : MaskDenoiser
        Fitted, with cuts between neighbours.
    image : ndarray
        NaN where missing.
    """
    import numpy as np
    from scipy.ndimage import correlate

    from logsuper.functions import Modular, grid_cuts
    from logsuper.model import LogSupermodular

    odds = denoiser.channel_.log_odds(image)
    around = correlate(np.tanh(odds / 2.0), denoiser.filter_, mode="constant")
    field = denoiser.modular_ + around + denoiser.scale_ * odds
    cuts = grid_cuts(image.shape, denoiser.neighbors)
    f = sum(
        (float(a) * cut for a, cut in zip(denoiser.alpha_, cuts, strict=True)),
        start=Modular(-np.ravel(field)),
    )
    return LogSupermodular(f)


def is_doubtful(denoiser: MaskDenoiser, image: NDArray[Any], jobs: int) -> NDArray[Any]:
    """Return the pixels whose certified interval of probability holds one half.

    Raises a ValueError where no certified interval is to be had: volumes, and other neighbours
    than the nearest four.
    """
    import numpy as np

    if image.ndim != 2 or denoiser.neighbors not in (None, 4):
        raise ValueError(NO_INTERVALS)
    model = posterior(denoiser, image)
    # without couplings there is no grid to cut into strips
    found = model.marginals("strips", n_jobs=jobs) if denoiser.alpha_.any() else model.marginals()
    assert found.lower is not None and found.upper is not None
    return np.asarray((found.lower <= 0.5) & (found.upper >= 0.5)).reshape(image.shape)
