"""Attack the library and count what comes out: ``python -m tests.fuzz --minutes 1``.

Exit code 1 on an opaque error, a crash, a hang or a wrong result, and where a target was never
reached. Every failure is printed with the words that repeat it.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections import Counter

from tests.fuzzing.outcomes import FAILURES, OUTCOMES, judge
from tests.fuzzing.runner import Failure, Report, run
from tests.fuzzing.worker import attack_of, make_case, strict_warnings

ATTACKS = ("arrays", "files", "cli", "kernels")


def main(arguments: list[str] | None = None) -> int:
    """Run the attacks that were asked for; return the exit code."""
    given = _parser().parse_args(arguments)
    if given.replay:
        return _replay(given.replay, given.seed)
    names = [given.only] if given.only else list(ATTACKS)
    clean = True
    for name in names:
        report = _attack(name, given, 60.0 * given.minutes / len(names))
        if report is None:
            continue
        _print_table(report)
        _print_failures(report, given.seed)
        clean = clean and report.clean
    print("clean" if clean else "NOT clean")
    return 0 if clean else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="in all; default 1")
    parser.add_argument("--calls", type=int, help="cases of each target, instead of minutes")
    parser.add_argument("--only", choices=ATTACKS, help="one attack instead of all")
    parser.add_argument("--target", default="", help="only targets with this in their name")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="worker processes")
    parser.add_argument(
        "--replay", metavar="ATTACK:TARGET:NUMBER", help="run one case here, and show its error"
    )
    return parser


def _attack(name: str, given: argparse.Namespace, seconds: float) -> Report | None:
    if name == "kernels":
        return _attack_kernels(seconds, given.seed)
    if given.calls is not None:
        return run(name, given.seed, cases=given.calls, jobs=given.jobs, only=given.target)
    return run(name, given.seed, seconds=seconds, jobs=given.jobs, only=given.target)


def _attack_kernels(seconds: float, seed: int) -> Report | None:
    """Run the attack on the compiled entry points, which has processes of its own."""
    try:
        kernels = attack_of("kernels")
    except ModuleNotFoundError as error:
        if error.name not in ("tests.fuzzing.kernels", "logsuper._kernels"):
            raise
        print(f"kernels: not attacked, there is no {error.name}\n")
        return None
    return report_of_kernels(kernels.run(seconds, seed))


def report_of_kernels(counts: Counter[tuple[str, str]]) -> Report:
    """Return the report of counts by entry point and outcome."""
    report = Report("kernels")
    for (entry, outcome), count in counts.items():
        report.counts[entry][outcome] += count
        if outcome in FAILURES:
            report.failures.append(Failure("kernels", entry, 0, outcome, f"{count} times"))
    return report


def _replay(case: str, seed: int) -> int:
    name, _, rest = case.partition(":")
    target, _, number = rest.rpartition(":")
    made = make_case(attack_of(name), target, seed, int(number))
    print(made.describe(), flush=True)
    strict_warnings()
    try:
        verdict = made.run()
    except Exception as error:
        traceback.print_exc()
        verdict = judge(error)
    print(f"{verdict.outcome}: {verdict.message}")
    return int(verdict.outcome in FAILURES)


def _print_table(report: Report) -> None:
    width = max(len(report.attack), *(len(target) for target in report.counts))
    columns = [max(len(outcome), 7) for outcome in OUTCOMES]

    def line(name: str, cells: list[str]) -> str:
        padded = (f"{cell:>{size}}" for cell, size in zip(cells, columns, strict=True))
        return f"{name:<{width}}  " + "  ".join(padded)

    print(line(report.attack, list(OUTCOMES)))
    total: Counter[str] = Counter()
    for target, counts in report.counts.items():
        total += counts
        print(line(target, [str(counts[outcome]) for outcome in OUTCOMES]))
    print(line(f"all {total.total()}", [str(total[outcome]) for outcome in OUTCOMES]))
    print()


def _print_failures(report: Report, seed: int) -> None:
    """Print one failure of each kind, and how to see it again."""
    alike: dict[tuple[str, str, str], list[Failure]] = {}
    for failure in report.failures:
        kind = failure.target, failure.outcome, failure.message[-40:]
        alike.setdefault(kind, []).append(failure)
    for first, *more in alike.values():
        times = f" ({1 + len(more)} times)" if more else ""
        print(f"{first.outcome}{times}: {first.target}: {first.message}")
        place = f"{first.attack}:{first.target}:{first.number}"
        print(f"    python -m tests.fuzz --seed {seed} --replay {place!r}")
    for target in report.unreached:
        print(f"unreached: {target}: no case gave a result")


if __name__ == "__main__":
    sys.exit(main())
