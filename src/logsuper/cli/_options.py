"""Options that the commands for folders of masks have in common."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from logsuper.cli._inputs import FOLDER, SEED, FiniteRange, TextPath

Command = TypeVar("Command", bound=Callable[..., Any])

_RATE = FiniteRange(0.0, 0.5, min_open=True, max_open=True)
MODEL = TextPath(dir_okay=False, path_type=Path)


class _Or(click.ParamType):  # type: ignore[type-arg]
    """A word, or a number in a range, which is described in words."""

    def __init__(self, word: str, number: FiniteRange, described: str) -> None:
        self._word, self._number, self._described = word, number, described
        self.name = f"{word}|NUMBER"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the word, or the number."""
        if value == self._word:
            return value
        try:
            return self._number.convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is neither {self._word} nor {self._described}", param, ctx)

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[Any]:
        """Return the word, if it may be what is being typed."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(self._word)] if self._word.startswith(incomplete) else []


class _Noise(click.ParamType):  # type: ignore[type-arg]
    """A word, a rate of flips, or one rate for zeros and one for ones."""

    name = "auto|asymmetric|RATE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the word, the rate, or two rates."""
        if not isinstance(value, str) or value in ("auto", "asymmetric"):
            return value
        try:
            rates = tuple(_RATE.convert(part, param, ctx) for part in value.split(","))
        except click.BadParameter:
            rates = ()
        if len(rates) not in (1, 2):
            self.fail(
                f"{value!r} is neither auto nor asymmetric nor a share between 0 and 0.5, as in "
                "0.1, nor two of them, as in 0.02,0.25",
                param,
                ctx,
            )
        return rates[0] if len(rates) == 1 else rates

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[Any]:
        """Return the words that may be what is being typed."""
        from click.shell_completion import CompletionItem

        words = "auto", "asymmetric"
        return [CompletionItem(word) for word in words if word.startswith(incomplete)]


class _Missing(click.ParamType):  # type: ignore[type-arg]
    """Alpha, NaN, a colour by its name or as #rrggbb, or a level."""

    name = "COLOUR|LEVEL|alpha|nan"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return what `logsuper.io.read_image` takes as missing."""
        from PIL import ImageColor

        if value in ("alpha", "nan") or not isinstance(value, str):
            return value
        for number in (int, float):
            with contextlib.suppress(ValueError):
                return number(value)
        try:
            return ImageColor.getrgb(value)[:3]
        except ValueError:
            self.fail(
                f"{value!r} is not alpha, nan, a level such as 128 or -9999, or a colour such as "
                "red or #ff0000",
                param,
                ctx,
            )


MISSING = _Missing()


def check_jobs(what: str) -> Callable[[click.Context, click.Parameter, int], int]:
    """Return what counts processors for --jobs, of threads or processes."""

    def check(context: click.Context, parameter: click.Parameter, jobs: int) -> int:
        from logsuper._base import count_threads

        if jobs == 0:
            raise click.BadParameter(f"0 is not a number of {what}; try -1", param_hint="--jobs")
        return count_threads(jobs)

    return check


def _stack(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Return one decorator for several options, the first one first in the help."""

    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


inputs = click.argument(
    "inputs", nargs=-1, required=True, type=TextPath(path_type=Path), metavar="IN..."
)

learning_options = _stack(
    click.option(
        "--clean",
        type=TextPath(exists=True, file_okay=False, path_type=Path),
        help="Folder of clean masks to learn from, with the names of noisy ones (any suffix).",
    ),
    click.option(
        "--noise",
        type=_Noise(),
        metavar="auto|asymmetric|RATE",
        default="auto",
        show_default=True,
        help="Share of flipped pixels, as in 0.1, or of black pixels that are white and of white "
        "ones that are black, as in 0.02,0.25; or auto or asymmetric to estimate one rate or two.",
    ),
    click.option(
        "--trees/--no-trees",
        default=None,
        help="Also learn boosted trees of what surrounds a pixel: fewer errors, several times as "
        "long to learn.  [default: for 20 or more small masks with 100,000 pixels]",
    ),
    click.option("--seed", type=SEED, default=0, show_default=True, help="Random seed."),
)

reading_options = _stack(
    click.option(
        "--threshold",
        type=_Or("otsu", FiniteRange(), "a number, as in 0.5"),
        metavar="otsu|NUMBER",
        help="Make masks of grey images: by Otsu's threshold, or cut at a level from 0 (black) to "
        "1 (white; of floating point, in its own units).  [default: grey stays grey, with two "
        "Gaussian levels]",
    ),
    click.option(
        "--missing",
        type=_Missing(),
        metavar="COLOUR|LEVEL|alpha|nan",
        help="Pixels that are missing, to be filled in: those of a colour (red, #ff0000), of a "
        "level or no-data value (128, -9999), transparent ones (alpha), or NaN, which always is.",
    ),
    click.option(
        "--volume",
        type=click.Choice(["slices", "whole"]),
        default="slices",
        show_default=True,
        help="Clean stacks and volumes slice by slice, or as a whole, in three dimensions.",
    ),
)

output_options = _stack(
    click.option(
        "--out",
        type=FOLDER,
        required=True,
        help="Folder for the clean masks; made if it is not there.",
    ),
    click.option(
        "--probabilities",
        is_flag=True,
        help="Also write how probable white is, with 16 bits (65535 is 1): OUT/probabilities.",
    ),
    click.option(
        "--uncertain",
        is_flag=True,
        help="Also mark pixels whose certified interval of probability holds one half: "
        "OUT/uncertain. Minutes per image where wide areas are missing.",
    ),
    click.option(
        "--compare",
        is_flag=True,
        help="Also draw sheets: before, after, how sure: OUT/compare, several in overview.png.",
    ),
    click.option(
        "--force",
        is_flag=True,
        help="Replace files that are there, and clean again what is finished.",
    ),
)

run_options = _stack(
    click.option(
        "--jobs",
        type=click.IntRange(-1024, 1024),
        metavar="N",
        default=-1,
        show_default=True,
        callback=check_jobs("threads"),
        help="Threads; -1 is one per processor. The results do not depend on it.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
)


def sides(options: Mapping[str, Any]) -> list[str]:
    """Return what is to be written besides masks."""
    return [side for side in ("probabilities", "uncertain", "compare") if options[side]]


def loaded(path: Path) -> Any:
    """Return the estimator in a file, or say in one line what is wrong with it."""
    from logsuper.estimators import load_model

    try:
        return load_model(path)
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror or error}") from error
    except (ValueError, MemoryError) as error:
        raise click.ClickException(str(error)) from error


def needs_model(path: Path) -> Any:
    """Return the denoiser in a file, or say in one line what is wrong with it."""
    from logsuper.estimators import MaskDenoiser

    model = loaded(path)
    if not isinstance(model, MaskDenoiser):
        raise click.ClickException(
            f"{path}: is a {type(model).__name__}, not a denoiser of masks (logsuper fit makes one)"
        )
    return model
