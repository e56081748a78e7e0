"""`logsuper crf fit` and `logsuper crf apply`: a field behind a classifier, or behind a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from logsuper.cli import _fields, _fields_report, _masks, _options
from logsuper.cli._folder import pair_with, spare_inputs
from logsuper.cli._inputs import FOLDER, SEED, TextPath

_THERE = TextPath(exists=True, file_okay=False, path_type=Path)

_EXAMPLES = """\b
Example:
  logsuper crf fit photos/ --masks masks/ --save-model cells.npz
  logsuper crf apply --model cells.npz more/ --out found/ --probabilities
"""
_FIT_EXAMPLES = """\b
Examples:
  logsuper crf fit photos/ --masks masks/ --save-model cells.npz
  logsuper crf fit photos/ --masks masks/ --unary-probabilities network/ --save-model net.npz
  logsuper crf fit photos/ --masks partly/ --missing 128 --save-model cells.npz
"""
_APPLY_EXAMPLES = """\b
Examples:
  logsuper crf apply --model cells.npz more/ --out found/ --probabilities
  logsuper crf apply --model net.npz more/ --unary-probabilities network/ --out found/
"""


@click.group(epilog=_EXAMPLES)
def crf() -> None:
    """Segment images as masks of others show: a random field behind a classifier or a network.

    "logsuper crf fit" learns from images and their masks, "logsuper crf apply" writes masks, and
    probabilities, of other images.
    """


@crf.command(epilog=_FIT_EXAMPLES)
@_options.inputs
@click.option(
    "--masks",
    type=_THERE,
    required=True,
    help="Folder of masks (two levels), with the names of the images (any suffix).",
)
@click.option(
    "--missing",
    type=_options.MISSING,
    metavar="COLOUR|alpha|nan",
    help="Pixels of masks that have no label: those of a grey level (128) or colour (red, "
    "#ff0000), transparent ones (alpha), or NaN, which always has none.",
)
@click.option("--save-model", type=_options.MODEL, required=True, help="File for the model.")
@click.option(
    "--unary-probabilities",
    type=_THERE,
    help="Folder of a network's probability maps, with the names of the images: white is 1 (8 or "
    "16 bits, or floats from 0 to 1; NaN is not known). The network must not have been trained on "
    "these images.",
)
@click.option(
    "--unary",
    type=click.Choice(["trees", "linear"]),
    default="trees",
    show_default=True,
    help="What judges a pixel by itself where no probabilities are brought: boosted trees, trained "
    "inside, or features that the field weighs.",
)
@click.option(
    "--edges",
    type=click.Choice(["contrast", "uniform"]),
    default="contrast",
    show_default=True,
    help="Whether neighbours agree less across an edge of the picture, or alike everywhere.",
)
@click.option(
    "--neighbors",
    type=click.Choice(["4", "8", "6", "18", "26"]),
    help="Neighbours of a pixel.  [default: 4, of volumes 6]",
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Random seed.")
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
@_options.run_options
@click.pass_context
def fit(
    context: click.Context,
    /,
    inputs: tuple[Path, ...],
    masks: Path,
    missing: Any,
    save_model: Path,
    unary_probabilities: Path | None,
    unary: str,
    edges: str,
    neighbors: str | None,
    seed: int,
    force: bool,
    jobs: int,
    as_json: bool,
) -> None:
    """Learn from images and their masks, and save the model for "logsuper crf apply".

    IN are images, or folders of them, grey or in colour, or volumes. The model holds numbers only,
    no code. Exit code 1 if some images could not be read, 2 if none could.
    """
    chosen = context.get_parameter_source("unary") is click.core.ParameterSource.COMMANDLINE
    if unary_probabilities is not None and chosen:
        raise click.UsageError("--unary is for images without --unary-probabilities; leave it out")
    _masks.check_model_path(save_model, None, force)
    run = _fields.start(inputs)
    pairs = pair_with(run.plan, masks, "--masks", "an image")
    maps = _fields.find_maps(run.plan, unary_probabilities)
    _fields.learn(
        run,
        _fields.Lesson(pairs, maps, missing, seed),
        unary="probabilities" if maps is not None else unary,
        edges=edges,
        neighbors=None if neighbors is None else int(neighbors),
        random_state=seed,
        n_jobs=jobs,
    )
    _masks.save_model(run.denoiser, save_model, force=True)  # it was checked before
    _fields_report.print_learned(run, save_model, as_json)
    context.exit(1 if run.failures else 0)


@crf.command(epilog=_APPLY_EXAMPLES)
@_options.inputs
@click.option(
    "--model", type=_options.MODEL, required=True, help="Model from logsuper crf fit, or Python."
)
@click.option(
    "--unary-probabilities",
    type=_THERE,
    help="Folder of the network's probability maps of these images, for a model behind a network.",
)
@click.option("--out", type=FOLDER, required=True, help="Folder for the masks; made if not there.")
@click.option(
    "--probabilities",
    is_flag=True,
    help="Also write how probable the object is, with 16 bits (65535 is 1): OUT/probabilities.",
)
@click.option(
    "--force", is_flag=True, help="Replace files that are there, and do again what is finished."
)
@_options.run_options
@click.pass_context
def apply(
    context: click.Context,
    /,
    inputs: tuple[Path, ...],
    model: Path,
    unary_probabilities: Path | None,
    out: Path,
    probabilities: bool,
    force: bool,
    jobs: int,
    as_json: bool,
) -> None:
    """Segment images by a model that was learned before.

    IN are images, or folders of them. Masks have 0 and 255 (object) and keep the names of the
    images (a JPEG becomes a PNG). A second run continues one that was stopped. Exit code 0: all
    images were segmented, 1: some of them, 2: none.
    """
    sides = ["probabilities"] if probabilities else []
    run = _fields.start(inputs, out, sides)
    maps = _fields.find_maps(run.plan, unary_probabilities)
    if maps is not None:
        spare_inputs(run.plan.jobs, out, maps.values())
    _fields.load(run, model, unary_probabilities is not None)
    run.denoiser.set_params(n_jobs=jobs)
    ledger = _masks.open_ledger(out)
    painter = _fields.Painter(run.denoiser, run.key, maps, ledger)
    painter.refuse_strangers(run.plan.jobs, force)
    context.exit(_fields_report.paint_and_report(run, painter, out, force, as_json))
