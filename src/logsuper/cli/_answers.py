"""The best answers about a model, in the result files of the UAI competitions."""

from __future__ import annotations

import dataclasses
import math
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logsuper.cli._inputs import check_folder, writing

if TYPE_CHECKING:
    from logsuper.bounds import Bound, Bracket
    from logsuper.model import LogSupermodular

# An estimate by samples is better than the middle of a bracket this many standard errors wide.
_BETTER = 4.0
# Maximum width of a certified interval around what is called exact, in nats or of a probability.
_EXACT = 1e-6


@dataclasses.dataclass(frozen=True)
class Answers:
    """What was written, and how it was found.

    Attributes
    ----------
    files : list of Path
        The files .PR, .MAR and .MAP.
    log_partition : float
        In nats.
    by : str
        How it was found, in words.
    marginals_by : str
        How the marginals were found.
    """

    files: list[Path]
    log_partition: float
    by: str
    marginals_by: str

    def lines(self) -> list[str]:
        """Return a line per file."""
        decimal = self.log_partition / math.log(10.0)
        pr, mar, best = self.files
        return [
            f"Written: log10 Z = {decimal:.6f} ({self.by}) to {pr}",
            f"Written: marginals ({self.marginals_by}) to {mar}",
            f"Written: mode (exact, by minimum cut) to {best}",
        ]

    def as_json(self) -> dict[str, Any]:
        """Return how the answers were found."""
        log_z = {"ln": self.log_partition, "by": self.by}
        return {"log_partition": log_z, "marginals": {"by": self.marginals_by}}


def check_results(start: Path, force: bool) -> None:
    """Refuse, before any work, to replace results.

    Parameters
    ----------
    start : Path
        What the names of the files begin with.
    force : bool
    """
    check_folder(start.parent, hint="--write")
    for path in (Path(f"{start}.{kind}") for kind in ("PR", "MAR", "MAP")):
        if os.path.isdir(path):
            raise click.ClickException(f"--write: {path} is a folder")
        if os.path.exists(path) and not force:
            raise click.ClickException(
                f"--write: {path} is there already; give another folder, or --force to replace it"
            )


def write_answers(
    start: Path,
    model: LogSupermodular,
    found: Sequence[Bound],
    bracket: Bracket | None,
    mode: Sequence[int],
    force: bool,
) -> Answers:
    """Write the best estimate of log Z, the best marginals that are cheap, and the mode.

    Parameters
    ----------
    start : Path
        What the names of the files begin with.
    model : LogSupermodular
    found : sequence of Bound
        What methods have found.
    bracket : Bracket, optional
        The best certified one.
    mode : sequence of int
    force : bool
        Whether to replace files.
    """
    from logsuper.io import write_uai_results

    value, by = best_estimate(found, bracket)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of wide intervals: the line says how wide
        marginals = model.marginals()
    marginals_by = f"by {marginals.method}"
    if marginals.lower is not None and marginals.upper is not None and marginals.upper.size:
        width = float((marginals.upper - marginals.lower).max())
        marginals_by += ", exact" if width <= _EXACT else f", certified to {width:.2g} or better"
    with writing(start.parent, "--write"):
        files = write_uai_results(
            start, log_partition=value, marginals=marginals.values, mode=mode, force=force
        )
    return Answers(files, value, by, marginals_by)


def best_estimate(found: Sequence[Bound], bracket: Bracket | None) -> tuple[float, str]:
    """Return the best estimate of log Z, and in words what it is.

    An exact value; else an estimate by samples that is much more accurate than the bracket; else
    the middle of the bracket.
    """
    certified = [] if bracket is None else [bracket.below]
    exact = [bound for bound in (*found, *certified) if bound.target == "exact"]
    if exact:
        return exact[0].value, f"exact, by {exact[0].method}"
    if bracket is not None and bracket.width <= _EXACT:
        methods = " and ".join(dict.fromkeys([bracket.below.method, bracket.above.method]))
        return (bracket.lower + bracket.upper) / 2.0, f"exact, by {methods}"
    sampled = [bound for bound in found if bound.target == "estimate" and bound.stderr is not None]
    if sampled:
        best = min(sampled, key=lambda bound: bound.stderr or 0.0)
        error = best.stderr or 0.0
        if bracket is None or bracket.lower <= best.value <= bracket.upper:
            if bracket is None or _BETTER * error < bracket.width:
                return best.value, f"estimate by {best.method}, standard error {error:.2g} nats"
    if bracket is None:
        raise click.ClickException(
            "--write: no method has found log Z from both sides; leave out --method, or allow more "
            "by --budget"
        )
    methods = " and ".join(dict.fromkeys([bracket.below.method, bracket.above.method]))
    middle = (bracket.lower + bracket.upper) / 2.0
    return middle, f"the middle of the bracket by {methods}, {bracket.width:.2g} nats wide"
