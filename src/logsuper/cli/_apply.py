"""`logsuper apply --model F IN... --out DIR`: clean by a model that was learned before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from logsuper.cli import _masks, _options
from logsuper.cli._observed import Reading

_EXAMPLES = """\b
Example:
  logsuper apply --model masks.npz more/ --out clean/
"""


@click.command(epilog=_EXAMPLES)
@_options.inputs
@click.option("--model", type=_options.MODEL, required=True, help="Model from logsuper fit.")
@_options.output_options
@_options.reading_options
@_options.run_options
@click.pass_context
def apply(
    context: click.Context, /, inputs: tuple[Path, ...], model: Path, out: Path, **options: Any
) -> None:
    """Clean noisy masks by a model that was learned before.

    IN are images, or folders of them; each result keeps the name, format and bit depth of its input
    (a JPEG becomes a PNG). A second run continues one that was stopped. Exit code 0: all images
    were cleaned, 1: some of them, 2: none.
    """
    run = _masks.start(inputs, Reading.of(options), out, _options.sides(options), model)
    ledger = _masks.open_ledger(out)
    _masks.check_outputs(run, ledger, options)
    context.exit(_masks.clean_and_report(run, out, ledger, options))
