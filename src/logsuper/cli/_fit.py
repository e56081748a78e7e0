"""`logsuper fit IN... --save-model F`: learn, and keep what was learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from logsuper.cli import _masks, _options
from logsuper.cli._console import print_object
from logsuper.cli._found import as_content, print_found
from logsuper.cli._observed import Reading

_EXAMPLES = """\b
Examples:
  logsuper fit masks/ --save-model masks.npz
  logsuper fit noisy/ --clean labelled/ --save-model masks.npz
"""


@click.command(epilog=_EXAMPLES)
@_options.inputs
@click.option("--save-model", type=_options.MODEL, required=True, help="File for the model.")
@_options.learning_options
@_options.reading_options
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
@_options.run_options
@click.pass_context
def fit(
    context: click.Context,
    /,
    inputs: tuple[Path, ...],
    save_model: Path,
    clean: Path | None,
    noise: Any,
    seed: int,
    trees: bool | None,
    force: bool,
    jobs: int,
    as_json: bool,
    **options: Any,
) -> None:
    """Learn from noisy masks, and save the model for "logsuper apply".

    IN are images, or folders of them. At most two million pixels are learned from, drawn at random
    from all images. Exit code 1 if some images could not be read, 2 if none could.
    """
    _masks.check_model_path(save_model, None, force)
    run = _masks.start(inputs, Reading.of(options))
    _masks.learn_from_files(run, _masks.make_lesson(run, noise, seed, clean, trees), jobs)
    _masks.save_model(run.denoiser, save_model, force)
    if as_json:
        print_object(as_content(run, file=str(save_model)))
    else:
        print_found(run)
        click.echo(f"Model: {save_model}")
    context.exit(1 if run.failures else 0)
