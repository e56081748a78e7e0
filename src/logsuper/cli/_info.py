"""`logsuper info MODEL`: what is in a saved model of any kind."""

from __future__ import annotations

from pathlib import Path

import click

from logsuper.cli._console import print_object, print_table, say
from logsuper.cli._models import describe
from logsuper.cli._options import MODEL, loaded

_EXAMPLES = """\b
Example:
  logsuper info masks.npz
"""


@click.command(epilog=_EXAMPLES)
@click.argument("model", type=MODEL)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def info(model: Path, as_json: bool) -> None:
    """Say what is in a saved MODEL, of logsuper fit or of any estimator in Python."""
    from logsuper.report import Table

    found = describe(loaded(model))
    if as_json:
        print_object({"file": str(model), **found.facts})
        return
    say(f"{model}: {found.does}.")
    for line in found.sentences:
        say(line)
    print_table(Table("Model", ["what", "value"], found.rows))
