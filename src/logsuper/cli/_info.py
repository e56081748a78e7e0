"""`logsuper info MODEL`: what is in a file that `logsuper fit` has written."""

from __future__ import annotations

import json
from pathlib import Path

import click

from logsuper.cli._console import print_table, say
from logsuper.cli._found import words_of_model
from logsuper.cli._learning import describe_model
from logsuper.cli._options import MODEL, needs_model

_EXAMPLES = """\b
Example:
  logsuper info masks.npz
"""


@click.command(epilog=_EXAMPLES)
@click.argument("model", type=MODEL)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def info(model: Path, as_json: bool) -> None:
    """Say what is in a saved MODEL."""
    from logsuper.report import Table

    found = describe_model(needs_model(model))
    if as_json:
        click.echo(json.dumps({"file": str(model), **found}, allow_nan=False))
        return
    say(f"{model}: cleans {'volumes' if found['axes'] == 3 else 'images'}.")
    for line in words_of_model(found):
        say(line)
    shape = "x".join(map(str, found["shape"])) if found["modular"] == "per pixel" else "any"
    radius, modular = found["filter_radius"], found["modular"]
    rows = [
        ("size of images", shape),
        ("weight of an observation", f"{found['observation_weight']:.3f}"),
        ("filter of observations", f"{radius} pixels around" if radius else "none"),
        ("preference for white", modular if isinstance(modular, str) else f"{modular:.3f}"),
        ("learned by", found["learner"] + ("" if found["converged"] else ", not to convergence")),
    ]
    print_table(Table("Model", ["what", "value"], rows))
