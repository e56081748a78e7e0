"""Checks of what users type, before any work: paths, numbers, and folders to write to."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from logsuper.cli._console import is_plain

SEED = click.IntRange(0, 2**63 - 1)
"""A random seed."""


class TextPath(click.Path):
    """A path that can be printed and written in a report: UTF-8, without control characters."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        text = os.fsdecode(value)
        if not is_plain(text):
            self.fail(f"{text!r} is not UTF-8, or has a control character; rename it", param, ctx)
        return super().convert(value, param, ctx)


FOLDER = TextPath(file_okay=False, path_type=Path)
"""A folder for results, which need not be there yet."""


class FiniteRange(click.FloatRange):
    """A range of finite numbers."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{number} is not a finite number", param, ctx)
        return number


def check_folder(out: Path, names: Iterable[str] = (), hint: str = "--out") -> None:
    """Make the folder for the results of a command, or say in one line why that is impossible.

    Parameters
    ----------
    out : Path
    names : iterable of str
        Files that will be written there.
    hint : str
        The option that named the folder.
    """
    context = click.get_current_context(silent=True)
    with writing(out, hint):
        new = [folder for folder in (out, *out.parents) if not folder.exists()]
        if context is not None:
            context.call_on_close(lambda: _remove_empty(new))
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):  # the reliable test of the permission to write
            pass
        for name in names:
            if (out / name).is_dir():
                raise IsADirectoryError(errno.EISDIR, f"{name} is a folder")


def _remove_empty(folders: Iterable[Path]) -> None:
    """Remove folders that nothing was written to: what failed leaves nothing behind."""
    with contextlib.suppress(OSError):
        for folder in folders:
            folder.rmdir()


@contextlib.contextmanager
def writing(out: Path, hint: str = "--out") -> Iterator[None]:
    """Say in one line that a path cannot be written to, and which option named it."""
    try:
        yield
    except OSError as error:
        message = f"{hint}: cannot write to {out}: {error.strerror or error}"
        raise click.ClickException(message) from error


@contextlib.contextmanager
def in_one_line(before: str = "", *others: type[Exception]) -> Iterator[None]:
    """Say in one line what is wrong with an input."""
    wrong: tuple[type[Exception], ...] = (ValueError, OSError, MemoryError, *others)
    try:
        yield
    except wrong as error:
        raise click.ClickException(f"{before}{error}") from error
