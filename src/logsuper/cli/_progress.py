"""Bars on the terminal while experiments run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial

from logsuper.cli._console import console

_Show = Callable[[int, int], None]
Stage = Callable[[str, int | None], Callable[[int], None]]
"""Begins a stage of a work, given its name and total, and returns what is told how much is done."""


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


@contextmanager
def stages() -> Iterator[Stage]:
    """Show the stages of a work on the standard error, with the remaining time; on terminals only.

    Yields
    ------
    callable
        Is given the name of a stage and its total (None if unknown), and returns a function that
        is given how much of it is done.
    """
    from rich import progress as rich
    from rich.text import Text

    class Left(rich.ProgressColumn):
        """The remaining time, where it is known."""

        def render(self, task: rich.Task) -> Text:
            seconds = task.time_remaining
            known = seconds is not None and not task.finished
            return Text(f"{timedelta(seconds=int(seconds or 0))} left" if known else "")

    screen = console(stderr=True)
    columns = (
        rich.TextColumn("{task.description}", markup=False),
        rich.BarColumn(),
        rich.TaskProgressColumn(),
        rich.TimeElapsedColumn(),
        Left(),
    )
    with rich.Progress(
        *columns, console=screen, disable=not screen.is_terminal, transient=True
    ) as progress:

        def stage(name: str, total: int | None) -> Callable[[int], None]:
            for one in progress.tasks:  # what was before is done
                amount = one.total or 1
                progress.update(one.id, total=amount, completed=amount)
            task = progress.add_task(name, total=total)
            return lambda done: progress.update(task, completed=done)

        yield stage


class Listener:
    """A callback of estimators that shows on the terminal what a fit is doing.

    Parameters
    ----------
    stage : callable
        From `stages`.
    """

    def __init__(self, stage: Stage) -> None:
        self._begin, self._known = stage, 0
        self._show: Callable[[int], None] = lambda done: None

    def __call__(self, record: object) -> None:
        """Ignore a step: bars move by themselves."""

    def stage(self, what: str, done: int, total: int) -> None:
        """Show a new stage, or that one more of several fits is done."""
        if total and total == self._known:
            self._show(done)
        elif what.startswith("learning by"):
            self._known = total
            several = f"Learning: {total} fits, to choose and to check" if total else "Learning"
            self._show = self._begin(several, total or None)
        elif what.startswith("training"):
            self._show = self._begin("Learning: training trees", None)
        elif what.endswith("pixels"):
            self._show = self._begin("Learning: estimating the noise", None)
