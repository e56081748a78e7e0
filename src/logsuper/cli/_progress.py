"""Bars on the terminal while experiments run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from logsuper.cli._console import console

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
    from rich import progress as rich

    name = rich.TextColumn("{task.description}", markup=False)
    columns = name, rich.BarColumn(), rich.MofNCompleteColumn(), rich.TimeElapsedColumn()
    with rich.Progress(*columns, console=console(stderr=True)) as progress:

        def show(task: rich.TaskID, done: int, total: int) -> None:
            progress.start_task(task)
            progress.update(task, completed=done, total=total)

        yield {
            name: partial(show, progress.add_task(name, start=False, total=None)) for name in names
        }
