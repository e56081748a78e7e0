"""Run the benchmark: `python -m benchmarks [--only NAME] [--quick] [--markdown OUT]`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from rich.console import Console

from benchmarks import report
from benchmarks.measure import Settings
from benchmarks.outcome import Outcome
from benchmarks.runs import ENTRIES, select


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parse = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Time logsuper against other packages, and compare the answers.",
        epilog=f"Entries: {', '.join(ENTRIES)}. Exit code 1: an energy of ours was worse, "
        "or an entry failed.",
    )
    parse.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="an entry, a prefix or a wildcard; repeatable",
    )
    parse.add_argument(
        "--repeat", type=int, default=None, help="chunks per peer (default 11, quick 3)"
    )
    parse.add_argument(
        "--quick", action="store_true", help="smaller batches and fewer chunks: a smoke test"
    )
    parse.add_argument(
        "--clock",
        choices=("wall", "cpu"),
        default="wall",
        help="clock on one thread; cpu if others share the machine",
    )
    parse.add_argument("--json", type=Path, metavar="OUT", help="write every chunk's seconds")
    parse.add_argument("--markdown", type=Path, metavar="OUT", help="write the tables")
    return parse


def main(arguments: list[str] | None = None) -> int:
    """Measure, report, and return the exit code."""
    command = sys.argv[1:] if arguments is None else arguments
    options = parser().parse_args(command)
    repeat = options.repeat if options.repeat is not None else (3 if options.quick else 11)
    if repeat < 1:
        parser().error("--repeat must be at least 1")
    try:
        names = select(options.only)
    except ValueError as error:
        parser().error(str(error))
    settings = Settings(
        repeat=repeat,
        chunk_seconds=0.03 if options.quick else 0.1,
        peer_seconds=3.0 if options.quick else 20.0,
        clock=options.clock,
        quick=options.quick,
        cores=report.usable_cores(),
    )
    facts = report.environment(settings)
    console, progress = Console(width=None if sys.stdout.isatty() else 190), Console(stderr=True)
    outcome = Outcome()
    for name in names:
        start = time.perf_counter()
        progress.print(f"{name} ...", end=" ", highlight=False)
        try:
            ENTRIES[name](settings, outcome)
        except KeyboardInterrupt:
            # Print what was measured so far.
            outcome.failures.append(f"{name}: interrupted")
            break
        except Exception as error:
            outcome.failures.append(f"{name}: {type(error).__name__}: {error}")
        progress.print(f"{time.perf_counter() - start:.1f} s", highlight=False)
    report.show(console, facts, outcome)
    if options.json:
        options.json.write_text(
            json.dumps(report.as_json(facts, settings, outcome, command), indent=1) + "\n"
        )
    if options.markdown:
        options.markdown.write_text(report.markdown(facts, outcome, command))
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    sys.exit(main())
