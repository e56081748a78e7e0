"""Figure 2 of the paper: an image, the noisy one and the denoised; and what a model can say beyond.

Section 5 of Shpakova and Bach (2016) shows one image. Here are some, not selected, at two levels of
noise: how sure the model is of each pixel, exact samples of the clean image given the noisy one,
images of which a third is missing, and the parameters as pictures.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from logsuper import learning
from logsuper._base import FloatArray
from logsuper.estimators import MaskDenoiser
from logsuper.experiments import _sheet
from logsuper.experiments._parts import Part, Progress, run_parts
from logsuper.experiments._section import Grid, Picture, Section
from logsuper.experiments._setting import Setting
from logsuper.functions import grid_cuts
from logsuper.learning import make_examples

__all__ = ["run"]

_NOISES, _QUICK_NOISES = (0.1, 0.2), (0.1,)
_IMAGES, _QUICK_IMAGES = 4, 2
_QUICK_TRAIN = 40
_RADIUS = 2  # of the learned filter
_SAMPLES = 2  # of each image
_WRONG = "Wrong pixels are red where the mask has too much, blue where it has too little."

_GAPS = {
    "whole": "nothing missing",
    "scattered": "a third missing here and there",
    "block": "a third missing in one block",
}
"""What is missing of the noisy images."""

_Found = Mapping[str, FloatArray]


def run(
    setting: Setting,
    *,
    seeds: Sequence[int],
    quick: bool = False,
    partial: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    n_jobs: int = 1,
) -> Section:
    """Learn from pairs, and show what becomes of some test images.

    Parameters
    ----------
    setting : Setting
    seeds : sequence of int
        The first is that of the noise; there is one model for each level of noise and kind of gaps.
    quick : bool
        One level of noise, fewer images.
    partial : path, optional
        Where what is finished is kept.
    progress : callable, optional
    n_jobs : int
        Processes.

    Returns
    -------
    Section
    """
    start = time.perf_counter()
    noises = _QUICK_NOISES if quick else _NOISES
    train = min(setting.train, _QUICK_TRAIN) if quick else setting.train
    shown = min(setting.test, _QUICK_IMAGES if quick else _IMAGES)
    chosen = np.linspace(0, setting.test - 1, shown).round().astype(int).tolist()
    fields = _fields(shown, setting.masks.images.shape[1:])
    size = sum(math.prod(shape) for shape in fields.values())
    parts = {
        (noise, kind): Part(
            f"figure2-{kind}-{noise:.2f}-{seeds[0]}",
            _work,
            {
                "setting": setting,
                "noise": noise,
                "kind": kind,
                "seed": seeds[0],
                "train": train,
                "chosen": chosen,
            },
            size,
        )
        for noise in noises
        for kind in _GAPS
    }
    depends = {**setting.arguments(), "learn": train, "chosen": chosen}
    numbers = run_parts(
        list(parts.values()), depends, partial=partial, progress=progress, n_jobs=n_jobs
    )
    found = {key: _unpack(numbers[part.name], fields) for key, part in parts.items()}
    clean = setting.clean[1][chosen].astype(np.float64)
    pictures = [
        picture
        for noise in noises
        for picture in _pictures(
            noise, clean, {kind: found[noise, kind] for kind in _GAPS}, setting.shipped
        )
    ]
    text = (
        f"Each model is learned from {train} pairs of noisy and clean images, as MaskDenoiser does "
        "by default: cuts along rows and columns, a modular term, a linear filter of what was "
        "observed around a pixel, and a weight of the observations. Where pixels are missing, they "
        "are so in training as well. The images are evenly spaced in the list of test images; none "
        "was selected by its looks.",
    )
    seconds = time.perf_counter() - start
    return Section(
        "figure2",
        "Figure 2: images, denoised",
        text,
        (_errors(found, setting.test), _weights(found)),
        tuple(pictures),
        seconds,
        tuple(seeds[:1]),
    )


# ---------------------------------------------------------------------------------------- numbers


def _fields(count: int, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of what a part finds."""
    images = (count, *shape)
    return {
        "observed": images,
        "mode": images,
        "mean": images,
        "samples": (count, _SAMPLES, *shape),
        "modular": shape,
        "filter": (2 * _RADIUS + 1, 2 * _RADIUS + 1),
        "alpha": (2,),
        "scale": (1,),
        "factor": (1,),
        "errors": (len(_ERRORS),),
    }


def _unpack(numbers: FloatArray, fields: Mapping[str, tuple[int, ...]]) -> _Found:
    """Return the arrays that were written one after the other."""
    ends = np.cumsum([math.prod(shape) for shape in fields.values()])
    pieces = np.split(numbers, ends[:-1])
    return {
        name: piece.reshape(shape)
        for (name, shape), piece in zip(fields.items(), pieces, strict=True)
    }


def _work(
    setting: Setting, noise: float, kind: str, seed: int, train: int, chosen: list[int]
) -> FloatArray:
    """Return all fields of one model, one after the other."""
    clean, test = setting.clean
    noisy, observed = (
        np.where(_missing(kind, images.shape, [seed, stream]), np.nan, images)
        for stream, images in enumerate(setting.noisy(noise, seed))
    )
    denoiser = MaskDenoiser(
        modular="pixel", context=_RADIUS, decode="map", random_state=seed, n_jobs=1
    ).fit(noisy[:train], clean[:train])
    modes, means = denoiser.predict(observed), denoiser.predict_proba(observed)
    shown = observed[chosen]
    found = {
        "observed": shown,
        "mode": modes[chosen],
        "mean": means[chosen],
        "samples": (
            _walk(denoiser, shown, seed)
            if kind == "block"
            else denoiser.sample_posterior(shown, _SAMPLES, random_state=seed)
        ),
        "modular": denoiser.modular_,
        "filter": denoiser.filter_,
        "alpha": denoiser.alpha_,
        "scale": denoiser.scale_,
        "factor": denoiser.decode_factor_,
        "errors": _measure(test, observed, modes, means),
    }
    fields = _fields(len(chosen), test.shape[1:])
    return np.concatenate([np.ravel(found[name]).astype(np.float64) for name in fields])


def _missing(kind: str, shape: tuple[int, ...], seed: list[int]) -> NDArray[np.bool_]:
    """Return which pixels are missing; the block is the middle third of the columns."""
    if kind == "scattered":
        return np.random.default_rng(seed).random(shape) < 1 / 3
    missing = np.zeros(shape, dtype=np.bool_)
    if kind == "block":
        third = shape[-1] // 3
        missing[..., third : shape[-1] - third] = True
    return missing


def _walk(denoiser: MaskDenoiser, seen: FloatArray, seed: int) -> NDArray[np.uint8]:
    """Return approximate samples given images, shape (images, samples, ...).

    In a large gap couplings are strong and fields weak: coupling from the past may take for ever
    there, while clusters move at once.
    """
    examples = make_examples(
        grid_cuts(seen.shape[1:]),
        observed=list(seen),
        channel=denoiser.channel_,
        modular="pixel",
        context=_RADIUS,
        scale=True,
    )
    theta = examples.layout.pack(denoiser.parameters_)
    (group,) = examples.groups
    fields = examples.fields(theta, group, np.arange(group.count))
    drawn = [
        learning.make_model(group, row, denoiser.alpha_, field).sample(
            _SAMPLES, "swendsen_wang", seed=np.random.default_rng([seed, row]), n_jobs=1
        )
        for row, field in enumerate(fields)
    ]
    return np.stack(drawn).reshape(len(seen), _SAMPLES, *seen.shape[1:])


_ERRORS = (
    "observed",
    "MAP",
    "mean",
    "mean, as expected",
    "gaps, mean",
    "gaps, as expected",
)
"""Shares of wrong pixels; expected is what the probabilities say."""


def _measure(
    clean: NDArray[np.uint8],
    observed: FloatArray,
    modes: NDArray[np.uint8],
    means: FloatArray,
) -> FloatArray:
    """Return the errors in all test images; NaN for those in gaps if there are none."""
    gaps = np.isnan(observed)
    wrong, expected = (means > 0.5) != clean, np.minimum(means, 1.0 - means)
    inside = [wrong[gaps].mean(), expected[gaps].mean()] if gaps.any() else [np.nan, np.nan]
    return np.array(
        [
            (observed != clean)[~gaps].mean(),
            (modes != clean).mean(),
            wrong.mean(),
            expected.mean(),
            *inside,
        ]
    )


# ------------------------------------------------------------------------------------ what is shown


def _errors(found: Mapping[tuple[float, str], _Found], test: int) -> Grid:
    """Return the errors in all test images."""
    head = ("noise", "missing", *_ERRORS)

    def rows(form: str, unit: str = "") -> Iterator[tuple[str, ...]]:
        for (noise, kind), result in found.items():
            cells = ("" if np.isnan(x) else format(100.0 * x, form) for x in result["errors"])
            yield f"{100.0 * noise:g}{unit}", _GAPS[kind], *cells

    return Grid(
        "figure2",
        f"Wrong pixels in all {test} test images, in percent",
        head,
        tuple(rows(".2f", " %")),
        "Observed: of the pixels that are not missing. As expected: the share of wrong pixels "
        "that follows from the probabilities, without a look at the clean images. Gaps: of the "
        "missing pixels.",
        (head, *rows(".9g")),
    )


def _weights(found: Mapping[tuple[float, str], _Found]) -> Grid:
    """Return the learned numbers that make no picture."""

    def rows(form: str, unit: str = "") -> Iterator[tuple[str, ...]]:
        for (noise, kind), result in found.items():
            numbers = (*result["alpha"], *result["scale"], *result["factor"])
            yield f"{100.0 * noise:g}{unit}", _GAPS[kind], *(format(x, form) for x in numbers)

    head = ("noise", "missing", "horizontal cut", "vertical cut", "observation", "MAP factor")
    return Grid(
        "figure2_weights",
        "Learned weights",
        head,
        tuple(rows(".2f", " %")),
        "For MAP all weights but that of the observation are multiplied by the factor, which is "
        "picked on the training images.",
        (head, *rows(".9g")),
    )


def _pictures(
    noise: float, clean: FloatArray, found: Mapping[str, _Found], shipped: bool
) -> Iterator[Picture]:
    """Return the pictures of one level of noise."""
    whole, images = found["whole"], range(len(clean))

    def sheet(name: str, rows: Sequence[_sheet.Row], caption: str) -> Picture:
        return Picture(
            f"figure2_{100 * noise:.0f}_{name}",
            _sheet.draw(rows),
            f"{100 * noise:.0f} % noise: {caption}",
            shipped,
        )

    yield sheet(
        "denoised",
        [
            _sheet.Row(
                [
                    _sheet.grey(clean[i], "original"),
                    _sheet.grey(whole["observed"][i], "noisy"),
                    _sheet.judged(whole["mode"][i], clean[i], "denoised, MAP"),
                    _sheet.judged(whole["mean"][i] > 0.5, clean[i], "denoised, mean"),
                ]
            )
            for i in images
        ],
        f"the paper's figure 2, with both decodings. {_WRONG}",
    )
    yield sheet(
        "uncertainty",
        [
            _sheet.Row(
                [
                    _sheet.grey(whole["mean"][i], "probability"),
                    _sheet.doubt(whole["mean"][i], "uncertainty"),
                    *_samples(whole, clean, i, "exact sample"),
                ]
            )
            for i in images
        ],
        "the probability of each pixel, its entropy (white 0, brown one bit), and two exact "
        f"samples of the clean image given the noisy one, by coupling from the past. {_WRONG}",
    )
    kinds = {"scattered": "exact sample", "block": "approximate sample"}
    yield sheet(
        "missing",
        [
            _sheet.Row(
                [
                    _sheet.grey(found[kind]["observed"][i], "observed"),
                    _sheet.grey(found[kind]["mean"][i], "probability"),
                    *_samples(found[kind], clean, i, title),
                ],
                _GAPS[kind] if i == 0 else "",
            )
            for kind, title in kinds.items()
            for i in images[:2]
        ],
        "a third of the pixels missing (yellow), the rest noisy. Samples are exact, by coupling "
        "from the past, where pixels are missing here and there; where a block is missing they are "
        f"approximate, by Swendsen and Wang's chain. {_WRONG}",
    )
    yield sheet(
        "parameters",
        [
            _sheet.Row(
                [
                    _sheet.signed(result["modular"], "modular term"),
                    _sheet.signed(result["filter"], "filter"),
                ],
                _GAPS[kind],
            )
            for kind, result in found.items()
        ],
        "what was learned: the modular term, and the filter of what was observed around a pixel.",
    )


def _samples(result: _Found, clean: FloatArray, i: int, title: str) -> list[_sheet.Panel]:
    """Return the samples of an image."""
    return [
        _sheet.judged(sample, clean[i], title if k == 0 else "another")
        for k, sample in enumerate(result["samples"][i])
    ]
