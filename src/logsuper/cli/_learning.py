"""Learning from files: a bounded sample of them, and what was found in plain words."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from logsuper.cli._console import one_line
from logsuper.cli._folder import Failure, Job
from logsuper.cli._observed import Observed, Reading, read_observed
from logsuper.cli._shell_words import collected_warnings, in_shell_words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from logsuper.estimators import MaskDenoiser

SAMPLE = 1 << 21
"""Pixels to learn from."""

_DIRECTIONS = ("along rows", "down columns", "across slices")

_LEAST = {2: 96 * 96, 3: 24**3}
"""Pixels that an image or volume in the sample has at least, if it is that large."""


@dataclasses.dataclass(frozen=True)
class Lesson:
    """How to learn.

    Attributes
    ----------
    noise : "auto", "asymmetric", float or (float, float)
    seed : int
    reading : Reading
    pairs : dict of Path to Path, or None
        The clean image of each noisy one that has one; None to learn without.
    files : tuple of Job
        The files to learn from.
    quota : int
        Pixels that one file gives at most.
    trees : bool, optional
        Whether boosted trees look at the surroundings of pixels; where they pay if None.
    """

    noise: Any
    seed: int
    reading: Reading
    pairs: dict[Path, Path] | None = None
    files: tuple[Job, ...] = ()
    quota: int = SAMPLE
    trees: bool | None = None

    @property
    def context(self) -> str:
        """What the estimator calls its choice of trees."""
        return "auto" if self.trees is None else "trees" if self.trees else "filter"


@dataclasses.dataclass(frozen=True, eq=False)
class Sample:
    """What is learned from.

    Attributes
    ----------
    noisy : list of ndarray
    clean : list of ndarray or None
    names : list of str
        The file of each.
    files : int
        Number of files they come from.
    whole : bool
        Whether they are whole images, and of one shape.
    failures : list of Failure
        Noisy images that could not be read, or are of another kind than most.
    unlearned : list of str
        What is wrong with clean ones.
    """

    noisy: list[NDArray[Any]]
    clean: list[NDArray[Any]] | None
    names: list[str]
    files: int
    whole: bool
    failures: list[Failure]
    unlearned: list[str]

    @property
    def pixels(self) -> int:
        """Number of pixels."""
        return sum(part.size for part in self.noisy)


class _Part(NamedTuple):
    """What is learned from one file: images or windows in them, and their labels if there are."""

    source: Path
    binary: bool
    noisy: list[NDArray[Any]]
    clean: list[NDArray[Any]]
    whole: bool


def choose_files(jobs: Sequence[Job], lesson: Lesson) -> Lesson:
    """Return the lesson with the files to learn from.

    All of them where they are small; else a random choice, each file giving a part.
    """
    import numpy as np

    usable = [job for job in jobs if lesson.pairs is None or job.source in lesson.pairs]
    total = sum(job.info.size for job in usable)
    if total <= SAMPLE:
        return dataclasses.replace(lesson, files=tuple(usable))
    axes = 3 if lesson.reading.volume == "whole" else 2
    quota = max(_LEAST[axes], SAMPLE // len(usable))
    rng = np.random.default_rng([lesson.seed, 1])
    chosen, pixels = [], 0
    for index in rng.permutation(len(usable)):
        chosen.append(int(index))
        pixels += min(quota, usable[index].info.size)
        if pixels >= SAMPLE:
            break
    # where some files are small, the others may give more
    files = tuple(usable[index] for index in sorted(chosen))
    return dataclasses.replace(lesson, files=files, quota=max(quota, SAMPLE // len(chosen)))


def take_sample(lesson: Lesson, show: Callable[[int], None]) -> Sample:
    """Read the files to learn from.

    Parameters
    ----------
    lesson : Lesson
    show : callable
        Is given the number of files that have been read.
    """
    import numpy as np

    parts: list[_Part] = []
    failures: list[Failure] = []
    unlearned: list[str] = []
    for number, job in enumerate(lesson.files):
        show(number + 1)
        try:
            seen = read_observed(job.source, job.info, lesson.reading)
        except (OSError, ValueError, MemoryError) as error:
            failures.append(Failure(job.source, str(error)))
            continue
        try:
            truth = None if lesson.pairs is None else _read_clean(job, seen, lesson)
        except (OSError, ValueError, MemoryError) as error:
            unlearned.append(str(error))
            continue
        windows = _windows(seen, lesson.quota, np.random.default_rng([lesson.seed, 2, number]))
        noisy = [seen.parts[k][window] for k, window in windows]
        clean = [] if truth is None else [truth.parts[k][window] for k, window in windows]
        whole = all(window == () for _, window in windows)
        parts.append(_Part(job.source, seen.binary, noisy, clean, whole))
    parts, strangers = _keep_one_kind(parts, lesson)
    found = [image for part in parts for image in part.noisy]
    labels = None if lesson.pairs is None else [image for part in parts for image in part.clean]
    names = [str(part.source) for part in parts for _ in part.noisy]
    whole = all(part.whole for part in parts) and len({image.shape for image in found}) == 1
    return Sample(found, labels, names, len(parts), whole, failures + strangers, unlearned)


def _keep_one_kind(parts: list[_Part], lesson: Lesson) -> tuple[list[_Part], list[Failure]]:
    """Return masks of two levels, or grey images, whichever are more; and the others as failures.

    With a rate of flips these are the masks. As many of each count as masks.
    """
    masks = [part for part in parts if part.binary]
    grey = [part for part in parts if not part.binary]
    if lesson.noise != "auto" and grey and not masks:
        raise click.ClickException(
            f"--noise: flips are for masks of two levels, but {grey[0].source} is grey; leave it "
            "out, or make masks by --threshold otsu"
        )
    if lesson.noise != "auto" or len(masks) >= len(grey):
        reason = "has grey levels, but most images are masks of two"
        if lesson.noise != "auto":
            reason = "has grey levels, but --noise is a rate for masks of two"
        reason += "; clean it apart, or make masks of all by --threshold otsu"
        return masks, [Failure(part.source, f"{part.source}: {reason}") for part in grey]
    reason = "is a mask of two levels, but most images are grey; clean it apart, or make masks of "
    reason += "all by --threshold otsu"
    return grey, [Failure(part.source, f"{part.source}: {reason}") for part in masks]


def _read_clean(job: Job, seen: Observed, lesson: Lesson) -> Observed:
    """Return the labels of an image."""
    from logsuper.io import inspect_image

    assert lesson.pairs is not None
    path = lesson.pairs[job.source]
    truth = read_observed(path, inspect_image(path), lesson.reading)
    if not truth.binary:
        raise ValueError(f"{path}: has grey levels; a clean mask has two (or say --threshold otsu)")
    if truth.shape != seen.shape:
        raise ValueError(f"{path}: has shape {truth.shape}, but {job.source} has {seen.shape}")
    return truth


def _windows(
    seen: Observed, quota: int, rng: np.random.Generator
) -> list[tuple[int, tuple[slice, ...]]]:
    """Return parts of a file, and windows in them (() for all of one), of `quota` pixels in all."""
    if seen.size <= quota:
        return [(k, ()) for k in range(len(seen.parts))]
    shape = seen.parts[0].shape
    count = max(1, quota // math.prod(shape))
    kept = sorted(rng.permutation(len(seen.parts))[:count].tolist())
    side = max(1, int(quota ** (1.0 / len(shape))))
    if math.prod(shape) <= quota:
        return [(k, ()) for k in kept]
    # a window as long as the quota allows where the image is narrower than its share
    sides = [min(side, n) for n in shape]
    for axis, n in enumerate(shape):
        sides[axis] = min(n, quota // math.prod(s for i, s in enumerate(sides) if i != axis))
    starts = [int(rng.integers(n - s + 1)) for n, s in zip(shape, sides, strict=True)]
    window = tuple(slice(a, a + s) for a, s in zip(starts, sides, strict=True))
    return [(k, window) for k in kept]


def learn(
    sample: Sample, lesson: Lesson, one_shape: bool, jobs: int, listener: Any = None
) -> tuple[Any, list[str]]:
    """Return a fitted denoiser, and what it warned of.

    Parameters
    ----------
    sample : Sample
    lesson : Lesson
    one_shape : bool
        Whether all images, those that are not in the sample too, have one shape.
    jobs : int
        Threads.
    listener : callable, optional
        A callback of the estimator.
    """
    from logsuper.channels import AsymmetricFlips
    from logsuper.estimators import MaskDenoiser

    everywhere = sample.whole and one_shape
    noise = AsymmetricFlips(*lesson.noise) if isinstance(lesson.noise, tuple) else lesson.noise
    denoiser = MaskDenoiser(
        noise=noise,
        context=lesson.context,
        modular="auto" if everywhere else "shared",
        random_state=lesson.seed,
        n_jobs=jobs,
        callback=listener,
    )
    with collected_warnings(sample.names) as texts:
        try:
            denoiser.fit(sample.noisy, sample.clean)
        except (ValueError, MemoryError) as error:
            message = in_shell_words(str(error), sample.names)
            raise click.ClickException(f"cannot learn from these images: {message}") from error
    # the file depends neither on the number of threads nor on who listens
    denoiser.set_params(n_jobs=None, callback=None)
    return denoiser, texts


def noise_error(lesson: Lesson, denoiser: MaskDenoiser) -> float | None:
    """Return the standard error of an estimated rate of flips, if there is one."""
    error = denoiser.noise_stderr_ if lesson.noise == "auto" else math.nan
    return error if math.isfinite(error) else None


def _as_numbers(value: Any) -> Any:
    """Return a number or nested lists of numbers, None for something else."""
    import numpy as np

    try:
        return np.asarray(value, dtype=np.float64).tolist()
    except (TypeError, ValueError):
        return None


def describe_model(denoiser: MaskDenoiser) -> dict[str, Any]:
    """Return what a model is, as JSON can hold it."""
    import numpy as np

    channel = denoiser.channel_
    weights = [float(a) for a in denoiser.alpha_]
    plain = denoiser.neighbors in (None, 4, 6) and len(weights) == denoiser.filter_.ndim
    return {
        "noise": _as_numbers(denoiser.noise_),
        "noise_kind": channel.kind,
        "noise_in_words": one_line(repr(channel))[:200],
        "levels": _as_numbers(channel.levels) if channel.kind == "gaussian" else None,
        "weights": weights,
        "directions": list(_DIRECTIONS[: len(weights)]) if plain else [],
        "observation_weight": float(denoiser.scale_),
        "filter_radius": denoiser.filter_.shape[0] // 2,
        "trees": denoiser.surroundings_ is not None,
        "trees_weight": float(denoiser.trust_),
        "modular": "per pixel" if np.ndim(denoiser.modular_) else float(denoiser.modular_),
        "axes": denoiser.filter_.ndim,
        "shape": list(denoiser.shape_ or ()) if np.ndim(denoiser.modular_) else None,
        "learner": denoiser.learner_,
        "converged": bool(denoiser.converged_),
    }
