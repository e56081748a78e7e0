"""`logsuper denoise IN... --out DIR`: clean a folder of noisy masks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from logsuper.cli import _masks, _options
from logsuper.cli._observed import Reading

_EXAMPLES = """\b
Examples:
  logsuper denoise masks/ --out clean/
  logsuper denoise masks/ --out clean/ --probabilities --compare
  logsuper denoise noisy/ --clean labelled/ --out clean/ --save-model cells.npz
"""


@click.command(epilog=_EXAMPLES)
@_options.inputs
@_options.output_options
@_options.learning_options
@click.option("--model", type=_options.MODEL, help="Clean by a saved model, without learning.")
@click.option(
    "--save-model", type=_options.MODEL, help="Also save the learned model, for logsuper apply."
)
@_options.reading_options
@_options.run_options
@click.pass_context
def denoise(
    context: click.Context,
    /,
    inputs: tuple[Path, ...],
    out: Path,
    clean: Path | None,
    noise: Any,
    seed: int,
    trees: bool | None,
    model: Path | None,
    save_model: Path | None,
    **options: Any,
) -> None:
    """Clean noisy masks: learn from the masks themselves, then write clean ones.

    IN are images, or folders of them (PNG, TIFF, JPEG, BMP, PBM, PGM, GIF, .npy, zarr). Nothing
    else is needed: the noise is estimated, and no clean mask is. Each result keeps the name, format
    and bit depth of its input (a JPEG becomes a PNG). No input is ever changed.

    A second run continues one that was stopped. Exit code 0: all images were cleaned, 1: some of
    them, 2: none.
    """
    _refuse_both(context, model)
    run = _masks.start(inputs, Reading.of(options), out, _options.sides(options), model)
    ledger = _masks.open_ledger(out)
    if model is not None:
        _masks.check_outputs(run, ledger, options)
    else:
        if save_model is not None and not ledger.folder.exists():
            _masks.check_model_path(save_model, None, options["force"])
        lesson = _masks.make_lesson(run, noise, seed, clean, trees, out)
        _masks.check_outputs(run, ledger, options)
        _masks.learn_from_files(run, lesson, options["jobs"], ledger)
        if save_model is not None:
            _masks.save_model(run.denoiser, save_model, options["force"])
    context.exit(_masks.clean_and_report(run, out, ledger, options))


def _refuse_both(context: click.Context, model: Path | None) -> None:
    """Refuse options of learning beside a model that is there."""
    for name in ("clean", "noise", "seed", "trees", "save_model"):
        source = context.get_parameter_source(name)
        if model is not None and source is click.core.ParameterSource.COMMANDLINE:
            option = name.replace("_", "-")
            if context.params[name] is False:
                option = f"no-{option}"
            raise click.UsageError(f"--{option} is for learning, and --model has learned already")
