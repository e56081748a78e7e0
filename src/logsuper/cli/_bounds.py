"""`logsuper bounds FILE.uai`: log Z of a model from below, from above and exactly."""

from __future__ import annotations

import inspect
import math
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from logsuper.cli._answers import check_results, write_answers
from logsuper.cli._console import one_line, print_object, print_table, say
from logsuper.cli._inputs import (
    FOLDER,
    SEED,
    FiniteRange,
    TextPath,
    in_one_line,
)

if TYPE_CHECKING:
    from logsuper.bounds import Bound, Bracket
    from logsuper.model import LogSupermodular

_LONG = 60  # variables of a mode that are printed
_DEFAULT = "exact lfield logistic trw superdifferential mean_field bethe".split()
_EXAMPLES = """\b
Examples:
  logsuper bounds model.uai --marginals
  logsuper bounds model.uai --evidence model.uai.evid --write results/
"""
_FILE = TextPath(exists=True, dir_okay=False, path_type=Path)


class _Method(click.ParamType):  # type: ignore[type-arg]
    """The name of a method for log Z, which the shell completes."""

    name = "NAME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the name, if there is such a method."""
        if value not in (known := _known_methods()):
            self.fail(f"{value!r} is not one of {', '.join(known)}", param, ctx)
        return value

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[Any]:
        """Return the names that may be what is being typed."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(name) for name in _known_methods() if name.startswith(incomplete)]


def _known_methods() -> list[str]:
    from logsuper import sampling
    from logsuper.bounds import METHODS

    return [*METHODS, *sampling.ESTIMATORS]


class _Row(NamedTuple):
    """What a method found, a `Bound` or `Marginals`, or why it did not."""

    method: str
    found: Any
    reason: str
    seconds: float


class _Mode(NamedTuple):
    """A most probable state, and the logarithm of its weight, which divided by Z is p(x)."""

    x: list[int]
    value: float


@click.command(epilog=_EXAMPLES)
@click.argument("file", type=_FILE)
@click.option(
    *("--method", "methods"),
    multiple=True,
    type=_Method(),
    help=f"A method; repeat it for several.  [default: {', '.join(_DEFAULT)}]",
)
@click.option(
    "--evidence", type=_FILE, help="Evidence file (UAI format): the variables that are known."
)
@click.option("--marginals", "with_marginals", is_flag=True, help="Also print P(x_d = 1).")
@click.option(
    *("--write", "folder"),
    type=FOLDER,
    help="Also write log Z (.PR), marginals (.MAR) and the mode (.MAP) there, as UAI results.",
)
@click.option("--force", is_flag=True, help="Replace result files that are there.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Random seed.")
@click.option(
    "--budget",
    type=FiniteRange(0.0, min_open=True),
    default=1e9,
    show_default=True,
    help="Operations, about a nanosecond each, that exact inference and the bracket may take.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def bounds(
    file: Path,
    methods: tuple[str, ...],
    evidence: Path | None,
    with_marginals: bool,
    folder: Path | None,
    force: bool,
    seed: int,
    budget: float,
    as_json: bool,
) -> None:
    """Bound the log-partition function of the model in FILE.

    FILE is a Markov network in the UAI format, with binary variables and attractive factors of at
    most two of them. Each method's value is printed as natural and as decimal logarithm, with the
    side of log Z that it is on. A method that does not suit the model is listed with the reason.
    The mode, a most probable state, is exact.
    """
    names = list(dict.fromkeys(methods or _DEFAULT))
    model = _read(file, evidence)
    if folder is not None:
        check_results(folder / file.name, force)
    values = [_try(model, "log_partition", name, seed, budget) for name in names]
    probabilities = [
        _try(model, "marginals", name, seed, budget) for name in names if with_marginals
    ]
    for row in (*values, *probabilities):
        if row.found is None and len(methods) == 1:
            raise click.ClickException(row.reason)
    bracket = _bracket(model, values, None if methods and folder is None else budget)
    mode = _find_mode(model)
    answers = None
    if folder is not None:
        found = [row.found for row in values if row.found is not None]
        answers = write_answers(folder / file.name, model, found, bracket, mode.x, force)
    if as_json:
        content = _as_json(file, model, values, bracket)
        content["mode"] = {"x": mode.x, "ln": mode.value, "log10": _decimal(mode.value)}
        content["written"] = [] if answers is None else list(map(str, answers.files))
        if answers is not None:
            content["answers"] = answers.as_json()
        if with_marginals:
            content["marginals"] = {row.method: _marginals_as_json(row) for row in probabilities}
        print_object(content)
    else:
        _print(file, model, values, bracket)
        _print_mode(mode)
        _print_marginals(model, probabilities)
        for line in answers.lines() if answers is not None else []:
            say(line)


def _read(file: Path, evidence: Path | None) -> LogSupermodular:
    """Return the model; what is wrong with a file becomes one line."""
    from logsuper.io import read_uai

    with in_one_line():
        return read_uai(file, evidence)


def _try(model: LogSupermodular, what: str, name: str, seed: int, budget: float) -> _Row:
    """Run a method, with the options that it has; a refusal becomes a reason."""
    from logsuper.bounds import METHODS
    from logsuper.sampling import NotCoalesced

    function = METHODS[name].find(what) if name in METHODS else None
    if function is None and (name in METHODS or what == "marginals"):
        return _Row(name, None, f"{name} gives no marginals", 0.0)
    legal = {"seed"} if function is None else set(inspect.signature(function).parameters)
    options = {key: n for key, n in {"seed": seed, "budget": budget}.items() if key in legal}
    start = time.perf_counter()
    try:
        found, reason = getattr(model, what)(name, **options), ""
    except (ValueError, NotCoalesced, MemoryError) as error:
        found, reason = None, _in_shell(str(error)) or "there is not enough memory"
    return _Row(name, found, reason, time.perf_counter() - start)


def _in_shell(reason: str) -> str:
    """Return why a method did not run, without what only users of Python can do about it."""
    text = re.sub(r"[;.] bound log Z by bracket\(\).*$", "", one_line(reason), flags=re.IGNORECASE)
    return text.replace(" (limit=)", "")


def _bracket(model: LogSupermodular, rows: list[_Row], budget: float | None) -> Bracket | None:
    """Return the best certified pair among the rows and, within a budget, of the model."""
    from logsuper.bounds import Bracket

    found = [row.found for row in rows if row.found is not None]
    proven = [s for b in found if b.certified and b.confidence is None for s in _sides(b)]
    if budget is not None:
        best = model.bracket(budget)
        proven += [best.below, best.above]
    exact = [bound for bound in proven if bound.target == "exact"]
    below = exact or [bound for bound in proven if bound.target == "lower"]
    above = exact or [bound for bound in proven if bound.target == "upper"]
    return Bracket(max(below, key=float), min(above, key=float)) if below and above else None


def _find_mode(model: LogSupermodular) -> _Mode:
    import numpy as np

    from logsuper.solvers import maximize

    value = float(maximize(model.f, np.zeros(model.f.n)).value) + model.constant
    return _Mode(np.ravel(model.mode()).tolist(), value)


def _sides(bound: Bound) -> list[Bound]:
    """Return a certified estimate as the two bounds that its interval is, others as they are."""
    if bound.target != "estimate" or bound.interval is None:
        return [bound]
    low, high = bound.interval
    return [replace(bound, value=low, target="lower"), replace(bound, value=high, target="upper")]


def _as_json(
    file: Path, model: LogSupermodular, rows: list[_Row], bracket: Bracket | None
) -> dict[str, Any]:
    return {
        "file": str(file),
        "variables": model.n,
        "fixed": {str(element): value for element, value in model.fixed.items()},
        "bounds": [_bound_as_json(row) for row in rows],
        "bracket": bracket
        and {
            "lower": bracket.lower,
            "upper": bracket.upper,
            "methods": [bracket.below.method, bracket.above.method],
        },
    }


def _bound_as_json(row: _Row) -> dict[str, Any]:
    bound: Bound | None = row.found
    if bound is None:
        return {"method": row.method, "skipped": row.reason}
    return {
        **{"method": row.method, "ran": bound.method, "side": bound.target},
        **{"certified": bound.certified, "ln": bound.value, "log10": _decimal(bound.value)},
        **{key: getattr(bound, key) for key in ("stderr", "interval", "confidence", "solves")},
        "seconds": row.seconds,
    }


def _marginals_as_json(row: _Row) -> dict[str, Any]:
    if row.found is None:
        return {"skipped": row.reason}
    parts = {key: getattr(row.found, key) for key in ("values", "lower", "upper", "stderr")}
    lists = {key: None if part is None else part.tolist() for key, part in parts.items()}
    return {**lists, "seconds": row.seconds}


def _decimal(value: float) -> float:
    return value / math.log(10.0)


def _print(file: Path, model: LogSupermodular, rows: list[_Row], bracket: Bracket | None) -> None:
    from logsuper.report import Table

    fixed = f", {len(model.fixed)} of them fixed" if model.fixed else ""
    cells = []
    for _, bound, _, seconds in rows:
        if bound is not None:
            error = "" if bound.stderr is None else f"{bound.stderr:.2g}"
            digits = f"{bound.value:.6f}", f"{_decimal(bound.value):.6f}"
            cells.append((bound.method, bound.target, *digits, error, f"{seconds:.3f}"))
    if cells:
        head = ["method", "side", "ln Z", "log10 Z", "standard error", "seconds"]
        print_table(Table(f"{file.name}: {model.n} variables{fixed}", head, cells))
    _print_reasons(rows)
    if bracket is not None:
        methods = " and ".join(dict.fromkeys([bracket.below.method, bracket.above.method]))
        say(
            f"Certified: ln Z in [{bracket.lower:.6f}, {bracket.upper:.6f}], log10 Z in "
            f"[{_decimal(bracket.lower):.6f}, {_decimal(bracket.upper):.6f}], by {methods}"
        )


def _print_mode(mode: _Mode) -> None:
    """Print the most probable state; a long one is in the file that --write makes."""
    state = "".join(map(str, mode.x))
    shown = state if len(state) <= _LONG else f"{state[:_LONG]}... ({len(state)} variables)"
    say(f"Mode: ln weight {mode.value:.6f}, log10 {_decimal(mode.value):.6f}, x = {shown}")


def _print_marginals(model: LogSupermodular, rows: list[_Row]) -> None:
    from logsuper.report import Table

    columns = {row.method: row.found.values for row in rows if row.found is not None}
    cells = [(d, *(f"{values[d]:.4f}" for values in columns.values())) for d in range(model.n)]
    if columns:
        print_table(Table("P(x_d = 1)", ["d", *columns], cells))
    _print_reasons(rows, "Marginals by ")


def _print_reasons(rows: list[_Row], what: str = "") -> None:
    """Say which methods were left out, and why."""
    for row in rows:
        if row.found is None:
            say(f"{what}{row.method}: left out, {row.reason}")
