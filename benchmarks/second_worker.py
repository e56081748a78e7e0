"""What a second worker process gains, beside what a second independent process gains.

The same job is done by one and by two workers of a `dask.distributed` cluster, and by one and by
two processes that know nothing of each other, each with half of it. All four are timed in turn,
round by round, and gains are medians over rounds: what disturbs the machine for some seconds
disturbs all four.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

__all__ = ["Gains", "compare", "work_when_told"]


# Dask has its workers return memory at once, to be fetched again page by page. It sets this in its
# own environment, too, for all processes to come.
TRIM = "MALLOC_TRIM_THRESHOLD_"


class Gains(NamedTuple):
    """Median seconds, gains, their ratio and its least and largest value over rounds.

    Attributes
    ----------
    seconds : dict of str to float
    workers, processes : float
        Time of one divided by that of two.
    ratio, least, most : float
        The first gain divided by the second.
    results : list
        What the job gave, of every run on a cluster.
    frugal : float
        Median seconds of two workers that return memory at once.
    """

    seconds: dict[str, float]
    workers: float
    processes: float
    ratio: float
    least: float
    most: float
    results: list[Any]
    frugal: float


def work_when_told(work: Callable[[], Any]) -> None:
    """Be one of several processes: say that all is prepared, wait for a line, print the seconds."""
    print("ready", flush=True)
    sys.stdin.readline()
    start = time.perf_counter()
    work()
    print(time.perf_counter() - start, flush=True)


def run_processes(command: list[str], count: int) -> float:
    """Start processes of `work_when_told`, let them begin together, and return the longest time."""
    os.environ.pop(TRIM, None)
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    try:
        for process in running:
            assert process.stdout is not None
            while (line := process.stdout.readline()).strip() != "ready":
                if not line:
                    raise RuntimeError(f"{' '.join(command)} ended before it was ready")
        for process in running:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        return max(float(process.communicate()[0].splitlines()[-1]) for process in running)
    finally:
        for process in running:
            process.kill()
            process.wait()


@contextmanager
def cluster(workers: int, frugal: bool = False) -> Iterator[Any]:
    """Start worker processes of one thread each; yield their client.

    With `frugal` they return memory to the system at once, as Dask has it by default.
    """
    import dask
    import distributed

    os.environ.pop(TRIM, None)
    setting = f"distributed.nanny.pre-spawn-environ.{TRIM}"
    with (
        dask.config.set({setting: 65536 if frugal else None}),
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as started,
        distributed.Client(started, set_as_default=False) as client,
    ):
        yield client


def compare(job: Callable[[Any], Any], command: Callable[[int], list[str]], repeat: int) -> Gains:
    """Time a job on clusters of one and two workers, and in one and two processes, in turn.

    Parameters
    ----------
    job : callable
        Called with a client; returns the result.
    command : callable
        Called with the number of processes; what starts one that does its part.
    repeat : int
        Rounds.
    """
    times: dict[str, list[float]] = {}
    results = []
    with ExitStack() as stack:
        clients = {
            "1 worker": stack.enter_context(cluster(1)),
            "2 workers": stack.enter_context(cluster(2)),
            "frugal": stack.enter_context(cluster(2, frugal=True)),
        }
        for client in clients.values():
            results.append(job(client))  # imports
        for _ in range(repeat):
            for name, client in clients.items():
                start = time.perf_counter()
                results.append(job(client))
                times.setdefault(name, []).append(time.perf_counter() - start)
            for count in (1, 2):
                seconds = run_processes(command(count), count)
                name = "1 process" if count == 1 else f"{count} processes"
                times.setdefault(name, []).append(seconds)
    frugal = statistics.median(times.pop("frugal"))
    first, second, third, fourth = times.values()
    workers = [a / b for a, b in zip(first, second, strict=True)]
    processes = [a / b for a, b in zip(third, fourth, strict=True)]
    ratios = [a / b for a, b in zip(workers, processes, strict=True)]
    return Gains(
        {name: statistics.median(each) for name, each in times.items()},
        statistics.median(workers),
        statistics.median(processes),
        statistics.median(ratios),
        min(ratios),
        max(ratios),
        results,
        frugal,
    )
