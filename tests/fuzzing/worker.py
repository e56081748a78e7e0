"""A process that runs cases: ``python -m tests.fuzzing.worker ATTACK SEED CPU_SECONDS MEGABYTES``.

It reads one chunk a line from the standard input (target, first number, how many, seconds), and
writes a line before and a line after each case. Whatever else is printed during a case is caught,
for the library is silent. A case that uses more processor time than it may ends the process by a
signal of its own (SIGPROF); one that asks for too much memory gets a MemoryError.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from typing import IO, Any

import numpy as np

from tests.fuzzing.outcomes import OPAQUE, Case, Verdict, judge


def attack_of(name: str) -> Any:
    """Return the module of an attack."""
    return importlib.import_module(f"tests.fuzzing.{name}")


def make_case(attack: Any, target: str, seed: int, number: int) -> Case:
    """Return a case; the same target, seed and number give the same case.

    Every third is left intact: a fuzz that never reaches the inside of its target tests little.
    """
    stream = np.random.default_rng([seed, zlib.crc32(target.encode()), number])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        case: Case = attack.TARGETS[target](stream, intact=number % 3 == 0)
    return case


def strict_warnings() -> None:
    """Let a warning be an error unless it is one that the library gives to its users."""
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", UserWarning)


def run_case(case: Case) -> Verdict:
    """Run a case with all but the library's own warnings as errors."""
    with warnings.catch_warnings():
        strict_warnings()
        try:
            return case.run()
        except Exception as error:
            return judge(error)


def limit_memory(megabytes: int) -> None:
    """Let no more be asked for than this on top of what is used now."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    used = 0
    if os.path.exists("/proc/self/statm"):
        with open("/proc/self/statm", encoding="ascii") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
    most = used + megabytes * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


class _Silence:
    """Catches what is printed, by Python or from within a library in C."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()
        for stream in (1, 2):
            os.dup2(self._file.fileno(), stream)

    def taken(self) -> str:
        """Return what was printed since the last time."""
        if os.fstat(self._file.fileno()).st_size == 0:
            return ""
        text = os.pread(self._file.fileno(), 2000, 0).decode(errors="replace")
        os.ftruncate(self._file.fileno(), 0)
        os.lseek(self._file.fileno(), 0, os.SEEK_SET)
        return text


def main(name: str, seed: int, cpu_seconds: float, megabytes: int) -> None:
    """Serve chunks until the standard input ends."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    attack = attack_of(name)
    silence = _Silence()
    if hasattr(signal, "setitimer"):
        # says where it was, and then dies of the signal
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        faulthandler.register(signal.SIGPROF, file=out, chain=True)
    faulthandler.enable(file=out)
    limit_memory(megabytes)
    for line in sys.stdin:
        target, first, count, seconds = json.loads(line)
        deadline = time.monotonic() + seconds
        for number in range(first, first + count):
            if number > first and time.monotonic() > deadline:
                break
            _serve(out, silence, attack, target, seed, number, cpu_seconds)
        _say(out, ["end"])


def _serve(
    out: IO[str],
    silence: _Silence,
    attack: Any,
    target: str,
    seed: int,
    number: int,
    cpu_seconds: float,
) -> None:
    _say(out, ["start", number])
    start = time.monotonic()
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    try:
        case = make_case(attack, target, seed, number)
    except Exception:  # the fuzz itself is wrong, which shall not pass for an answer of the library
        traceback.print_exc(file=out)
        raise
    verdict = run_case(case)
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, 0)
    sys.stdout.flush()
    printed = silence.taken()
    if printed:
        verdict = Verdict(OPAQUE, f"printed {printed[:300]!r}; {verdict.message}")
    _say(out, ["done", number, verdict.outcome, verdict.message[:1000], time.monotonic() - start])


def _say(out: IO[str], what: list[Any]) -> None:
    out.write(json.dumps(what) + "\n")
    out.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
