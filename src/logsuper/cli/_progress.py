"""Bars on the terminal while experiments run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from logsuper.cli._console import console

__all__ = ["bars"]

_Show = Callable[[int, int], None]


@contextmanager
def bars(names: Sequence[str]) -> Iterator[dict[str, _Show]]:
    """Show one bar per name on the standard error.

    Parameters
    ----------
    names : sequence of str

    Yields
    ------
    dict
        For each name a function that is given how much is done, and the total.
    """
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console(stderr=True)) as progress:

        def watch(task: TaskID) -> _Show:
            def show(done: int, total: int) -> None:
                progress.start_task(task)
                progress.update(task, completed=done, total=total)

            return show

        yield {name: watch(progress.add_task(name, start=False, total=None)) for name in names}
