"""Attack every entry of the compiled kernels: they may raise, but not crash, hang or be wrong.

Users never call them, but what is not checked there reads or writes outside of an array. Half of
the calls are valid and must succeed, twice, with the same and right results; in the others one to
three arguments are broken. They are made in processes of their own, which this one watches:
``python -m tests.fuzzing.kernels SECONDS SEED`` prints what came out.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import numpy as np

from tests.fuzzing.kernel_calls import Call, entries
from tests.fuzzing.kernel_mutations import mutate
from tests.fuzzing.kernel_tree_calls import MAKERS

BUILDS = ("logsuper._kernels", "logsuper._kernels_avx2")
FEWEST = 3
"""Valid calls that must have reached each entry of each build; fewer count as "wrong"."""

# Whatever asks for more memory than this gets a MemoryError, not the machine.
_MEMORY = 4 << 30
# A broken number may ask for years: after this many seconds a signal ends the call.
_PATIENCE = 1.0
# The call then has this long to end before it counts as a hang.
_HANG = 30.0
_CLEAR = (TypeError, ValueError, OverflowError, MemoryError)


class _Enough(Exception):
    """Raised by the alarm in the middle of a call."""


def run(seconds: float, seed: int) -> Counter[tuple[str, str]]:
    """Attack all builds that this machine can run; return how often each entry had each outcome.

    Outcomes are "result", "clear error", "opaque error", "crash", "hang" and "wrong".
    """
    found: Counter[tuple[str, str]] = Counter()
    builds = available()
    for name in builds:
        outcomes, valid, told = _attack(name, seconds / len(builds), seed)
        found += outcomes
        for line in told:
            print(line)
        for entry in sorted(entries(importlib.import_module(name))):
            if valid[entry] < FEWEST:
                print(f"{name}: {valid[entry]} valid calls of {entry}, at least {FEWEST} wanted")
                found[entry, "wrong"] += 1
    return found


def available() -> list[str]:
    """Return the names of the builds that this machine can run."""
    baseline = importlib.import_module(BUILDS[0])
    names = [BUILDS[0]]
    if baseline.has_avx2():
        with contextlib.suppress(ImportError):
            names.append(importlib.import_module(BUILDS[1]).__name__)
    return names


def _attack(
    build: str, seconds: float, seed: int
) -> tuple[Counter[tuple[str, str]], Counter[str], list[str]]:
    """Keep a process busy with one build; after a crash or a hang, the next one goes on."""
    outcomes: Counter[tuple[str, str]] = Counter()
    valid: Counter[str] = Counter()
    told: list[str] = []
    end, part = time.monotonic() + seconds, 0
    while part == 0 or time.monotonic() < end:
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "calls"
            left = max(0.5, end - time.monotonic())
            failure, errors = _watch(build, left, 1000 * seed + part, log)
            lines = log.read_text().splitlines() if log.exists() else []
        part += 1
        for line in lines:
            kind, entry, *rest = line.split("\t")
            if kind == "done":
                outcomes[entry, rest[1]] += 1
                valid[entry] += rest[0] == "valid" and rest[1] == "result"
                if rest[1] not in ("result", "clear error"):
                    told.append(f"{build}: {rest[1]}: {rest[2]}")
        if failure:
            last = lines[-1].split("\t") if lines else ["", "start", ""]
            outcomes[last[1], failure] += 1
            told.append(f"{build}: {failure}: {last[-1]}\n{errors[-2000:]}")
            if last[1] == "start":
                break
    return outcomes, valid, told


def _watch(build: str, seconds: float, seed: int, log: Path) -> tuple[str, str]:
    """Run one process; return "crash", "hang" or "", and what it said."""
    command = [sys.executable, "-X", "faulthandler", "-m", __spec__.name]
    errors = log.with_name("errors")
    with errors.open("w") as stream:
        child = subprocess.Popen(
            [*command, build, str(seconds), str(seed), str(log)],
            stdout=stream,
            stderr=stream,
            cwd=Path(__file__).parents[2],
            # glibc overwrites what is freed: memory used after its end shows in the results
            env=os.environ | {"MALLOC_PERTURB_": "85"},
        )
        size, since = -1, time.monotonic()
        while child.poll() is None:
            time.sleep(0.05)
            now = log.stat().st_size if log.exists() else -1
            if now != size:
                size, since = now, time.monotonic()
            elif time.monotonic() - since > _HANG:
                child.kill()
                child.wait()
                return "hang", errors.read_text()
    return ("crash" if child.returncode else ""), errors.read_text()


# ---- in the process that makes the calls ---------------------------------------------------------


def _work(build: str, seconds: float, seed: int, log: str) -> None:
    """Make calls of all entries in turn, each written down before and after."""
    if "SANITIZED" not in os.environ:  # which needs terabytes of addresses
        with contextlib.suppress(ImportError):  # not on Windows
            import resource

            resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    module = importlib.import_module(build)
    missing = entries(module) - MAKERS.keys()
    if missing:
        raise SystemExit(f"no calls are made of {', '.join(sorted(missing))}")
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, _stop)
    rng = np.random.default_rng(seed)
    end = time.monotonic() + seconds
    with open(log, "w", buffering=1) as out:
        while time.monotonic() < end:
            for name in sorted(entries(module)):
                call = MAKERS[name](module, rng)
                intact = rng.random() < 0.5
                if not intact:
                    call = Call(call.owner, mutate(rng, call.arguments))
                text = _describe(name, call)
                out.write(f"call\t{name}\t{text}\n")
                outcome = _outcome(module, name, call, intact)
                out.write(f"done\t{name}\t{'valid' if intact else 'broken'}\t{outcome}\t{text}\n")


def _stop(number: int, frame: FrameType | None) -> None:
    raise _Enough


def _outcome(module: ModuleType, name: str, call: Call, intact: bool) -> str:
    function = getattr(call.owner if call.owner is not None else module, name.rpartition(".")[2])
    before = copy.deepcopy(call.arguments) if intact else {}
    try:
        if intact:
            result, again = function(**call.arguments), function(**before)
        else:
            with _alarm():
                result = function(**call.arguments)
    except _Enough:
        return "result"
    except _CLEAR as error:
        if intact:
            return "wrong"
        return "clear error" if str(error) else "opaque error"
    except Exception:
        return "opaque error"
    if not intact:
        return "result"
    pairs = zip(call.arguments.values(), before.values(), strict=True)
    same = all(np.array_equal(a, b) for a, b in pairs if isinstance(a, np.ndarray))
    same = same and (not isinstance(result, float | int | tuple) or result == again)
    return "result" if same and call.right(result) else "wrong"


@contextlib.contextmanager
def _alarm() -> Any:
    if not hasattr(signal, "setitimer"):
        yield
        return
    signal.setitimer(signal.ITIMER_REAL, _PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _describe(name: str, call: Call) -> str:
    def one(value: Any) -> str:
        if isinstance(value, np.ndarray):
            text = f"{value.dtype}{value.shape}{'' if value.flags.c_contiguous else ' strided'}"
            return text if value.size > 6 or value.dtype == object else f"{text} {value.tolist()}"
        if isinstance(value, list):
            return f"[{', '.join(map(one, value))}]"
        if isinstance(value, tuple):
            return f"({', '.join(map(one, value))})"
        return repr(value)[:80]

    text = f"{name}({', '.join(f'{k}={one(v)}' for k, v in call.arguments.items())})"
    return " ".join(text.split())


def main(seconds: float, seed: int) -> int:
    """Print a line for each entry; return the exit code."""
    found = run(seconds, seed)
    outcomes = ("result", "clear error", "opaque error", "crash", "hang", "wrong")
    print(f"{'':24s}", *(f"{outcome:>12s}" for outcome in outcomes))
    for entry in sorted({entry for entry, _ in found}):
        print(f"{entry:24s}", *(f"{found[entry, outcome]:12d}" for outcome in outcomes))
    totals = [sum(n for (_, o), n in found.items() if o == outcome) for outcome in outcomes]
    print(f"{'all':24s}", *(f"{total:12d}" for total in totals))
    return 1 if any(totals[2:]) else 0


if __name__ == "__main__":
    if len(sys.argv) > 3:
        _work(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    else:
        sys.exit(main(float(sys.argv[1]), int(sys.argv[2])))
