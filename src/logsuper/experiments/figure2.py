"""Figure 2 of the paper: clean, noisy and denoised images, with more output of the model.

Section 5 of Shpakova and Bach (2016) shows one image. This experiment shows several images, not
selected, at two noise levels: the uncertainty of each pixel, exact samples of the clean image given
the noisy one, images of which a third is missing, and pictures of the parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from logsuper._base import FloatArray
from logsuper.estimators import MaskDenoiser
from logsuper.experiments._job import Job
from logsuper.experiments._setting import Setting
from logsuper.functions import grid_cuts
from logsuper.learning import make_examples, make_model
from logsuper.report import Picture, Section, Table, Words, sheet

__all__ = ["GAPS", "run"]

GAPS = {
    "whole": "nothing missing",
    "scattered": "a third missing here and there",
    "block": "a third missing in one block",
}
"""Kinds of missing pixels in the noisy images, and their descriptions."""

_NOISES, _QUICK_NOISES = (0.1, 0.2), (0.1,)
_IMAGES, _QUICK_IMAGES = 4, 2
_QUICK_TRAIN = 40
_RADIUS = 2  # radius of the learned filter in pixels
_SAMPLES = 2  # samples per image
# Percentages of wrong pixels; "as expected" is the error that the probabilities predict.
_ERRORS = (
    "observed", "MAP", "mean", "mean, as expected", "gaps, mean", "gaps, as expected",
)  # fmt: skip
_WEIGHTS = ("horizontal cut", "vertical cut", "observation", "MAP factor")


def run(setting: Setting, job: Job) -> Section:
    """Learn from pairs of images, and show the results for some test images.

    Parameters
    ----------
    setting : Setting
    job : Job
        Its first seed is that of the noise; there is one model per noise level and kind of missing
        pixels. A quick job uses one noise level and fewer images.

    Returns
    -------
    Section
    """
    noises = _QUICK_NOISES if job.quick else _NOISES
    train = min(setting.train, _QUICK_TRAIN) if job.quick else setting.train
    shown = min(setting.test, _QUICK_IMAGES if job.quick else _IMAGES)
    chosen = np.linspace(0, setting.test - 1, shown).round().astype(int).tolist()
    fixed = {"seed": job.seeds[0], "train": train, "chosen": chosen}
    fields = _fields(shown, setting.masks.images.shape[1:])
    axes, shape = {"noise": noises, "kind": tuple(GAPS)}, (fields.itemsize // 8,)
    depends = {**setting.arguments(), **fixed}
    numbers = job.grid("figure2", _work, axes, shape, depends, setting=setting, **fixed)
    found = {
        noise: dict(zip(GAPS, of_noise.view(fields)[:, 0], strict=True))
        for noise, of_noise in zip(noises, numbers, strict=True)
    }
    clean = setting.clean[1][chosen].astype(np.float64)
    said = Words("logsuper.experiments", "figure2", train=train, test=setting.test)
    pictures = []
    for noise, kinds in found.items():
        at = f"{100 * noise:.0f}"
        for name, (rows, texts) in _sheets(clean, kinds).items():
            png, caption = sheet.draw(rows, texts), f"{at} % noise: {said[name]}"
            pictures.append(Picture(f"figure2_{at}_{name}", png, caption, setting.shipped))
    parts = {"tables": tuple(_tables(found, said)), "pictures": tuple(pictures)}
    return said.section("figure2", **parts, seeds=job.seeds[:1])


# ---------------------------------------------------------------------------------------- numbers

_Found = Mapping[str, FloatArray]
_Sheet = tuple[list[list[sheet.Panel]], Sequence[str]]


def _fields(count: int, shape: tuple[int, ...]) -> np.dtype[np.void]:
    """Return the names and shapes of the results of a part, all of them float64."""
    width = 2 * _RADIUS + 1
    shapes = {
        **dict.fromkeys(("observed", "mode", "mean"), (count, *shape)),
        "samples": (count, _SAMPLES, *shape),
        "modular": shape,
        "filter": (width, width),
        "weights": (len(_WEIGHTS),),
        "errors": (len(_ERRORS),),
    }
    return np.dtype([(name, np.float64, of_field) for name, of_field in shapes.items()])


def _work(
    setting: Setting, noise: float, kind: str, seed: int, train: int, chosen: list[int]
) -> FloatArray:
    """Return all fields of one model as one array."""
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
    if kind == "block":
        samples = _sample_clusters(denoiser, shown, seed)
    else:
        samples = denoiser.sample_posterior(shown, _SAMPLES, random_state=seed)
    found = np.zeros(1, _fields(len(chosen), test.shape[1:]))
    found["observed"], found["mode"], found["mean"] = shown, modes[chosen], means[chosen]
    found["samples"] = samples
    found["modular"], found["filter"] = denoiser.modular_, denoiser.filter_
    found["weights"] = *denoiser.alpha_, denoiser.scale_, denoiser.decode_factor_
    found["errors"] = _measure(test, observed, modes, means)
    return found.view(np.float64)


def _missing(kind: str, shape: tuple[int, ...], seed: list[int]) -> NDArray[np.bool_]:
    """Return which pixels are missing; the block is the middle third of the columns."""
    if kind == "scattered":
        return np.random.default_rng(seed).random(shape) < 1 / 3
    missing = np.zeros(shape, dtype=np.bool_)
    if kind == "block":
        third = shape[-1] // 3
        missing[..., third : shape[-1] - third] = True
    return missing


def _sample_clusters(denoiser: MaskDenoiser, seen: FloatArray, seed: int) -> NDArray[np.uint8]:
    """Return approximate samples given images, shape (images, samples, ...).

    In a large block of missing pixels couplings are strong and fields weak: coupling from the past
    may not finish there, while cluster moves mix fast.
    """
    cuts, channel = grid_cuts(seen.shape[1:]), denoiser.channel_
    examples = make_examples(
        cuts, observed=seen, channel=channel, modular="pixel", context=_RADIUS, scale=True
    )
    theta = examples.layout.pack(denoiser.parameters_)
    (group,) = examples.groups
    fields = examples.fields(theta, group, np.arange(group.count))
    drawn = [
        make_model(group, row, denoiser.alpha_, field).sample(
            _SAMPLES, "swendsen_wang", seed=np.random.default_rng([seed, row]), n_jobs=1
        )
        for row, field in enumerate(fields)
    ]
    return np.stack(drawn).reshape(len(seen), _SAMPLES, *seen.shape[1:])


def _measure(
    clean: NDArray[np.uint8], observed: FloatArray, modes: NDArray[np.uint8], means: FloatArray
) -> FloatArray:
    """Return the errors over all test images (%); those in gaps are NaN if there are no gaps."""
    gaps = np.isnan(observed)
    wrong, expected = (means > 0.5) != clean, np.minimum(means, 1.0 - means)
    inside = [wrong[gaps].mean(), expected[gaps].mean()] if gaps.any() else [np.nan, np.nan]
    seen, mode = (observed != clean)[~gaps].mean(), (modes != clean).mean()
    return 100.0 * np.array([seen, mode, wrong.mean(), expected.mean(), *inside])


# ------------------------------------------------------------------------------------ what is shown


def _tables(found: Mapping[float, Mapping[str, _Found]], said: Words) -> Iterator[Table]:
    """Yield the tables of each model's numbers; the CSV files have full precision."""
    tables = {"figure2": ("errors", _ERRORS), "figure2_weights": ("weights", _WEIGHTS)}
    for name, (field, columns) in tables.items():
        head = ("noise", "missing", *columns)
        rows = [
            (100.0 * noise, GAPS[kind], *one[field])
            for noise, kinds in found.items()
            for kind, one in kinds.items()
        ]
        shown = [(f"{noise:g} %", *others) for noise, *others in rows]
        yield said.table(name, head, shown, data=[head, *rows])


def _sheets(clean: FloatArray, found: Mapping[str, _Found]) -> dict[str, _Sheet]:
    """Return the sheets of one noise level: their rows, and the text above each row."""
    whole, images = found["whole"], range(len(clean))

    def samples(one: _Found, i: int, title: str) -> list[sheet.Panel]:
        titles = (title, *["another"] * (_SAMPLES - 1))
        pairs = zip(one["samples"][i], titles, strict=True)
        return [sheet.judged(sample, clean[i], title) for sample, title in pairs]

    denoised = [
        [
            sheet.grey(clean[i], "original"),
            sheet.grey(whole["observed"][i], "noisy"),
            sheet.judged(whole["mode"][i], clean[i], "denoised, MAP"),
            sheet.judged(whole["mean"][i] > 0.5, clean[i], "denoised, mean"),
        ]
        for i in images
    ]
    uncertainty = [
        [
            sheet.grey(whole["mean"][i], "probability"),
            sheet.doubt(whole["mean"][i], "uncertainty"),
            *samples(whole, i, "exact sample"),
        ]
        for i in images
    ]
    missing = [
        [
            sheet.grey(found[kind]["observed"][i], "observed"),
            sheet.grey(found[kind]["mean"][i], "probability"),
            *samples(found[kind], i, title),
        ]
        for kind, title in (("scattered", "exact sample"), ("block", "approximate sample"))
        for i in images[:2]
    ]
    above = [GAPS[kind] if i == 0 else "" for kind in ("scattered", "block") for i in images[:2]]
    parameters = [
        [sheet.signed(one["modular"], "modular term"), sheet.signed(one["filter"], "filter")]
        for one in found.values()
    ]
    return {
        "denoised": (denoised, ()),
        "uncertainty": (uncertainty, ()),
        "missing": (missing, above),
        "parameters": (parameters, [GAPS[kind] for kind in found]),
    }
