"""`logsuper demo`: learn from noisy silhouettes alone, clean others, and show the result."""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from logsuper.cli._console import print_table, say
from logsuper.cli._inputs import FOLDER, SEED, FiniteRange, check_folder, writing
from logsuper.cli._progress import Listener, stages

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from logsuper.estimators import MaskDenoiser
    from logsuper.report import Page, sheet

_TRAIN = 60
_SHOWN = 4
_SAMPLES = 2
_FILES = {"report": "report.html", "image": "demo.png"}


class _Images(NamedTuple):
    """The images that were cleaned, and what was found about them."""

    original: NDArray[np.uint8]
    noisy: NDArray[np.float64]
    cleaned: NDArray[np.uint8]
    probability: NDArray[np.float64]
    samples: NDArray[np.uint8] | None  # none if exact sampling gave up


@click.command(context_settings={"show_default": True})
@click.option(
    "--out",
    type=FOLDER,
    default=Path("demo"),
    help="Folder for report.html and demo.png; made if it is not there.",
)
@click.option("--count", type=click.IntRange(1, 100), default=20, help="How many images to clean.")
@click.option(
    "--size", type=click.IntRange(16, 200), default=50, help="Height and width in pixels."
)
@click.option(
    "--noise",
    type=FiniteRange(0.0, 0.4, min_open=True),
    default=0.1,
    help="Share of pixels that are flipped.",
)
@click.option("--seed", type=SEED, default=0, help="Random seed.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def demo(out: Path, count: int, size: int, noise: float, seed: int, as_json: bool) -> None:
    """Learn from noisy silhouettes alone, and clean others.

    Draws silhouettes and flips some of their pixels. A model is learned from sixty of the noisy
    images: it sees no clean one, and is not told how many pixels were flipped. It then cleans
    others, says how sure it is of each pixel, and draws what the clean image may have been.
    """
    from logsuper.report import write_files

    check_folder(out, _FILES.values())
    denoiser, images, seconds = _run(count, size, noise, seed)
    figures = _figures(denoiser, images, noise, seconds)
    command = f"logsuper demo --count {count} --size {size} --noise {noise:g} --seed {seed}"
    page = _page(command, denoiser, images, figures)
    result = page.sections[0]
    contents = (page.html().encode(), result.pictures[0].png)
    with writing(out):
        paths = write_files(dict(zip(_FILES.values(), contents, strict=True)), out)
    if as_json:
        click.echo(json.dumps({**dict(zip(_FILES, map(str, paths), strict=True)), **figures}))
    else:
        print_table(result.tables[0])
        for name, path in zip(("Report", "Picture"), paths, strict=True):
            say(f"{name}: {path}")


def _run(
    count: int, size: int, noise: float, seed: int
) -> tuple[MaskDenoiser, _Images, tuple[float, float]]:
    """Return what was learned, the images, and the seconds of learning and of cleaning."""
    from logsuper import NotCoalesced
    from logsuper._base import ConvergenceWarning
    from logsuper.channels import Flips
    from logsuper.datasets import corrupt, make_silhouettes
    from logsuper.estimators import MaskDenoiser

    original = make_silhouettes(_TRAIN + count, (size, size), seed)
    noisy = corrupt(original, Flips(noise), seed)
    start = time.perf_counter()
    # the report says whether the fit has converged
    with (
        warnings.catch_warnings(action="ignore", category=ConvergenceWarning),
        stages() as stage,
    ):
        denoiser = MaskDenoiser(random_state=seed, n_jobs=-1, callback=Listener(stage))
        denoiser.fit(noisy[:_TRAIN])
    learned = time.perf_counter()
    others = noisy[_TRAIN:]
    probability = denoiser.predict_proba(others)
    cleaned = (probability > 0.5).astype("uint8")  # what `predict` does
    seconds = learned - start, time.perf_counter() - learned
    try:
        samples = denoiser.sample_posterior(others[:_SHOWN], _SAMPLES, random_state=seed)
    except NotCoalesced:  # strong weights, learned from images that are nearly pure noise
        samples = None
    return denoiser, _Images(original[_TRAIN:], others, cleaned, probability, samples), seconds


def _figures(
    denoiser: MaskDenoiser, images: _Images, noise: float, seconds: tuple[float, float]
) -> dict[str, Any]:
    """Return all numbers, as JSON can hold them; one share of wrong pixels per image."""
    import numpy as np

    def shares(wrong: NDArray[Any]) -> list[float]:
        return [float(share) for share in wrong.mean(axis=(1, 2))]

    p = images.probability
    return {
        "noise": noise,
        "noise_estimated": float(denoiser.noise_),
        "noisy": shares(images.noisy != images.original),
        "cleaned": shares(images.cleaned != images.original),
        "expected": shares(np.minimum(p, 1.0 - p)),
        "converged": denoiser.converged_,
        "learning_seconds": seconds[0],
        "cleaning_seconds": seconds[1],
    }


def _percent(share: float) -> str:
    return f"{100.0 * share:.2f} %"


def _summary(figures: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the rows of the summary."""
    from logsuper.report import duration

    count, converged = len(figures["noisy"]), figures["converged"]
    shares = {
        "flipped pixels, in truth": figures["noise"],
        "flipped pixels, as estimated": figures["noise_estimated"],
        "wrong pixels, before": sum(figures["noisy"]) / count,
        "wrong pixels, after": sum(figures["cleaned"]) / count,
        "wrong pixels, as the model expects": sum(figures["expected"]) / count,
    }
    source = f"{_TRAIN} noisy images, no clean one{'' if converged else ', not to convergence'}"
    return [
        ("learned from", source),
        ("cleaned", f"{count} other image{'s' * (count > 1)}"),
        *((what, _percent(share)) for what, share in shares.items()),
        ("time to learn", duration(figures["learning_seconds"])),
        ("time to clean", duration(figures["cleaning_seconds"])),
    ]


def _sheets(denoiser: MaskDenoiser, images: _Images) -> dict[str, list[list[sheet.Panel]]]:
    """Return the panels: the first images, their probabilities, and the learned model."""
    from logsuper.report import sheet

    demo, doubts = [], []
    for i, original in enumerate(images.original[:_SHOWN]):
        cleaned, probability = images.cleaned[i], images.probability[i]
        shown = {"original": original, "noisy": images.noisy[i], "cleaned": cleaned}
        shown["probability"] = probability
        demo.append([sheet.grey(image, title) for title, image in shown.items()])
        doubts.append(
            [sheet.judged(cleaned, original, "cleaned"), sheet.doubt(probability, "uncertainty")]
        )
        if images.samples is not None:
            pairs = zip(images.samples[i], ("exact sample", "another"), strict=True)
            doubts[-1] += [sheet.judged(sample, original, title) for sample, title in pairs]
    learned = [
        sheet.signed(denoiser.filter_, "filter"),
        sheet.signed(denoiser.modular_, "modular term"),
    ]
    return {"demo": demo, "doubts": doubts, "learned": [learned]}


def _page(command: str, denoiser: MaskDenoiser, images: _Images, figures: dict[str, Any]) -> Page:
    """Return the report."""
    from logsuper.report import Page, Picture, Section, Table, Words, sheet, versions

    said = Words("logsuper.cli", "demo", denoiser=denoiser, sampled=images.samples is not None)
    sheets = _sheets(denoiser, images)
    pictures = tuple(Picture(name, sheet.draw(rows), said[name]) for name, rows in sheets.items())
    summary = Table("Masks cleaned without clean examples", ["what", "result"], _summary(figures))
    shares = zip(figures["noisy"], figures["cleaned"], figures["expected"], strict=True)
    rows = [(i, *map(_percent, three)) for i, three in enumerate(shares, start=1)]
    head = ["image", "noisy", "cleaned", "cleaned, as expected"]
    sections = (
        Section("result", "What came out", said.paragraphs("text"), (summary,), pictures),
        Section("images", "Image by image", (), (Table("Wrong pixels in each image", head, rows),)),
    )
    facts = (("command", command), ("made with", versions()))
    return Page("Masks, cleaned without clean examples", said["lead"], facts, sections)
