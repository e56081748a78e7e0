"""Runs an attack: feeds workers with cases, watches them, and counts what became of the cases."""

from __future__ import annotations

import dataclasses
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.fuzzing.outcomes import CRASH, FAILURES, HANG, RESULT
from tests.fuzzing.worker import attack_of

ROOT = Path(__file__).resolve().parents[2]

# Cases, and seconds, that a target gets at most before the next one has its turn.
_MOST, _TURN = 500, 1.0


@dataclasses.dataclass(frozen=True)
class Failure:
    """A case that should not have ended as it did."""

    attack: str
    target: str
    number: int
    outcome: str
    message: str


@dataclasses.dataclass
class Report:
    """Counts by target and outcome, and the failures."""

    attack: str
    counts: dict[str, Counter[str]] = dataclasses.field(
        default_factory=lambda: defaultdict(Counter)
    )
    failures: list[Failure] = dataclasses.field(default_factory=list)

    def add(self, target: str, number: int, outcome: str, message: str) -> None:
        """Count a case."""
        self.counts[target][outcome] += 1
        if outcome in FAILURES:
            self.failures.append(Failure(self.attack, target, number, outcome, message))

    @property
    def unreached(self) -> list[str]:
        """Targets of which no case gave a result: their inside was not attacked at all."""
        return [target for target, counts in self.counts.items() if not counts[RESULT]]

    @property
    def clean(self) -> bool:
        """Whether nothing failed and everything was reached."""
        return not self.failures and not self.unreached


class _Worker:
    """A process that runs cases, started when it is needed."""

    def __init__(self, attack: str, seed: int) -> None:
        module = attack_of(attack)
        self.wall = module.WALL_SECONDS
        self.command = [
            *(sys.executable, "-m", "tests.fuzzing.worker"),
            *(attack, str(seed), str(module.CPU_SECONDS), str(module.MEGABYTES)),
        ]
        self.process: subprocess.Popen[bytes] | None = None
        self.rest = b""

    def run(
        self, target: str, first: int, count: int, seconds: float
    ) -> Iterator[tuple[int, str, str]]:
        """Yield number, outcome and message of each case that was run, at least one."""
        process = self._started()
        assert process.stdin is not None
        process.stdin.write(json.dumps([target, first, count, seconds]).encode() + b"\n")
        process.stdin.flush()
        current, said = first, []
        while True:
            line = self._line()
            if line is None or not line:
                yield current, HANG if line is None else self._death(), "\n".join(said)[-1000:]
                self.stop()
                return
            try:
                kind, *rest = json.loads(line)
            except ValueError:  # the last words of a process that dies
                said.append(line.decode(errors="replace"))
                continue
            if kind == "end":
                return
            current = rest[0]
            if kind == "done":
                yield current, rest[1], rest[2]

    def stop(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            assert self.process.stdin is not None and self.process.stdout is not None
            self.process.stdout.close()
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass
        self.process, self.rest = None, b""

    def _started(self) -> subprocess.Popen[bytes]:
        if self.process is None:
            # one thread of linear algebra each: more would only be slower on small arrays
            environment = os.environ | {
                "OMP_NUM_THREADS": "1",
                "OPENBLAS_NUM_THREADS": "1",
                # for the processes that a call may start; a worker has filters of its own
                "PYTHONWARNINGS": "ignore::UserWarning",
            }
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                env=environment,
            )
        return self.process

    def _line(self) -> bytes | None:
        """Return the next line, nothing at the end, None if it is too long in coming."""
        assert self.process is not None and self.process.stdout is not None
        stream = self.process.stdout.fileno()
        deadline = time.monotonic() + self.wall
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            while b"\n" not in self.rest:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return None
                read = os.read(stream, 65536)
                if not read:
                    return b""
                self.rest += read
        line, _, self.rest = self.rest.partition(b"\n")
        return line or b" "

    def _death(self) -> str:
        assert self.process is not None
        code = self.process.wait()
        return HANG if code == -getattr(signal, "SIGPROF", 0) else CRASH


def run(
    attack: str,
    seed: int,
    *,
    seconds: float | None = None,
    cases: int | None = None,
    jobs: int = 1,
    only: str = "",
) -> Report:
    """Attack for some seconds, or with so many cases of each target.

    Parameters
    ----------
    attack : str
        The name of a module in this package.
    seed : int
        Case number i of a target is the same in every run with the same seed.
    seconds : float, optional
        Shared between the targets.
    cases : int, optional
        Of each target.
    jobs : int
        Workers.
    only : str
        A part of the names of the targets.
    """
    report = Report(attack)
    targets = [target for target in attack_of(attack).TARGETS if only in target]
    if not targets:
        raise SystemExit(f"no target of {attack} has {only!r} in its name")
    spent = dict.fromkeys(targets, 0.0)
    upto = dict.fromkeys(targets, 0)
    busy: set[str] = set()
    lock = threading.Lock()
    end = None if seconds is None else time.monotonic() + seconds
    turn = _TURN if seconds is None else min(_TURN, seconds / (2 * len(targets)))

    def next_target() -> str | None:
        """Return the target on which the least time was spent, while there is something to do."""
        left = [t for t in targets if t not in busy and (cases is None or upto[t] < cases)]
        tried = all(upto.values())
        if not left or (end is not None and time.monotonic() > end and tried):
            return None
        return min(left, key=lambda t: (upto[t] > 0, spent[t]))

    def work() -> None:
        worker = _Worker(attack, seed)
        try:
            while True:
                with lock:
                    target = next_target()
                    if target is None:
                        return
                    busy.add(target)
                first = upto[target]
                count = _MOST if cases is None else min(_MOST, cases - first)
                start = time.monotonic()
                for number, outcome, message in worker.run(target, first, count, turn):
                    with lock:
                        report.add(target, number, outcome, message)
                        upto[target] = number + 1
                with lock:
                    spent[target] += time.monotonic() - start
                    busy.discard(target)
        finally:
            worker.stop()

    threads = [threading.Thread(target=work) for _ in range(max(1, jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return report
