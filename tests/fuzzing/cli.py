"""Hostile command lines: every command and option, with values, words and paths nobody expects.

Commands run in the worker, with small settings and stand-ins for the long experiments; a few run
as processes of their own. A traceback is an opaque error, and so is more than one line of words.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from logsuper import experiments
from logsuper.bounds._methods import METHODS
from logsuper.cli import _demo, main
from logsuper.experiments import figure1
from logsuper.report import Section, Table
from tests.fuzzing.files import _EVIDENCE, _UAI, _pictures
from tests.fuzzing.hostile import Rng, pick
from tests.fuzzing.outcomes import CLEAR, OPAQUE, RESULT, WRONG, Verdict, judge, shorten

CPU_SECONDS, WALL_SECONDS, MEGABYTES = 20.0, 180.0, 4096

_CODES = (0, 1, 2, 130)
_TIMEOUT = 100.0

_NUMBERS = (
    *("nan", "inf", "-inf", "-1", "0", "1", "2", "0.1", "1e30", "1e-300", "1e999", "5e-324"),
    *("99999999999999999999999999999999", "-99999999999999999999", "0x10", "1_0", "٣", "", " "),
    *("x", "--", "-", "[/x]", "\udcff", "1e", "0.4000001"),
)
# Below the folder of the case; {file} and {folder} are there, others are not.
_PATHS = (
    *("{file}", "{folder}", "{file}/below", "new/nested/folder", "[/x]", "[red]x[/red]", "a b"),
    *("a\nb", "\udcff\udcfe", "`<b>x</b>`", "x" * 300, "y/" * 3000, "", " ", "-", "~", "é", "\0"),
    *("/dev/null", "/dev/null/x", "/proc/none", "{folder}/../{folder}", "|", "*", "%s{0}"),
)
_FLAGS = ("--json", "--quick", "--marginals", "--nonsense", "-h", "--version", "--", "extra")


def _stand_in(name: str) -> None:
    """Put an experiment that takes no time in the place of one."""

    def run(setting: Any, job: experiments.Job) -> Section:
        assert job.progress is not None
        job.progress(1, 1)
        table = Table(f"Errors of {name}", ("noise", "error"), (("1 %", "0.2"),), name=name)
        return Section(name, f"The title of {name}", ("Text.",), (table,), seeds=(7,))

    module = types.ModuleType(f"logsuper.experiments.{name}")
    module.run = run  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module


@functools.cache
def _make_small() -> None:
    """Let every command take less than a second, in this process and for good."""
    for name in ("figure2", "table1", "table2", "calibration"):
        _stand_in(name)
    few = functools.partial(figure1.compute, points=3, n_samples=20)
    figure1.compute, figure1.QUICK_COUNTS = few, (1, 2)  # type: ignore[assignment]
    experiments.load_setting = functools.partial(  # type: ignore[assignment]
        experiments.load_setting, train=2, test=1, shape=(16, 16)
    )
    _demo._TRAIN = 20


@dataclasses.dataclass
class CommandLine:
    """Arguments for `logsuper`, to be run in a folder with a few files."""

    arguments: list[str]
    alone: bool = False

    def describe(self) -> str:
        """Return the arguments, and in which kind of process they are run."""
        return f"{'process' if self.alone else 'here'}: logsuper {shorten(self.arguments, 800)}"

    def run(self) -> Verdict:
        """Run it in a folder of its own."""
        with _folder() as folder:
            names = {"file": str(folder / "there.txt"), "folder": str(folder / "there")}
            given = [_fill(argument, names) for argument in self.arguments]
            return _run_process(given, folder) if self.alone else _run_here(given)


def _fill(argument: str, names: dict[str, str]) -> str:
    for name, path in names.items():
        argument = argument.replace(f"{{{name}}}", path)
    return argument


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """Make the folder that commands are run in, and go there."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "there").mkdir()
        (folder / "there.txt").write_text("there\n")
        (folder / "model.uai").write_bytes(_UAI[0])
        (folder / "model.uai.evid").write_bytes(_EVIDENCE[0])
        (folder / "bad.uai").write_bytes(_UAI[0][:40])
        (folder / "data" / "figure_ground").mkdir(parents=True)
        for i, picture in enumerate(_pictures()[:3]):
            (folder / "data" / "figure_ground" / f"horse{i:03}.jpg").write_bytes(picture)
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)


def _run_here(arguments: list[str]) -> Verdict:
    _make_small()
    result = CliRunner().invoke(main, arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return Verdict(OPAQUE, f"traceback: {judge(result.exception).message}")
    return _verdict(arguments, result.exit_code, result.stdout, result.stderr)


def _run_process(arguments: list[str], folder: Path) -> Verdict:
    done = subprocess.run(
        [sys.executable, "-m", "logsuper", *(a for a in arguments if "\0" not in a)],
        cwd=folder,
        capture_output=True,
        timeout=_TIMEOUT,
        check=False,
    )
    told = [text.decode(errors="replace") for text in (done.stdout, done.stderr)]
    return _verdict(arguments, done.returncode, *told)


def _verdict(arguments: list[str], code: int, said: str, errors: str) -> Verdict:
    """Judge an exit code and what was printed."""
    told = f"exit code {code}: {shorten(errors, 400)}"
    lines = [line for line in errors.splitlines() if line.strip()]
    complaints = [line for line in lines if line.startswith(("Error:", "Aborted"))]
    if code not in _CODES or "Traceback" in errors + said:
        return Verdict(OPAQUE, told)
    if code:
        # progress may stand above it, nothing below
        one = len(complaints) == 1 and lines[-1] == complaints[0]
        return Verdict(CLEAR if one else OPAQUE, told)
    if "--json" in arguments and said.startswith("{"):
        try:
            json.loads(said, parse_constant=_refuse_constant)
        except ValueError as error:
            return Verdict(WRONG, f"no JSON: {error}")
    return Verdict(RESULT)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


# ---------------------------------------------------------------------------------- command lines

Options = dict[str, tuple[str, tuple[str, ...]]]
"""An honest value of each option, and hostile ones."""


def _spoilt(rng: Rng, start: list[str], options: Options, intact: bool) -> list[str]:
    """Return a command with some of its options, one or two of them wrong."""
    names = [name for name in options if rng.integers(2) or name in ("--out", "--quick", "--jobs")]
    values = {name: options[name][0] for name in names}
    line = list(start)
    if not intact:
        for _ in range(1 + int(rng.integers(3) == 0)):
            name = pick(rng, sorted(options))
            values[name] = pick(rng, options[name][1] or _FLAGS)
        if rng.integers(8) == 0:
            line.append(pick(rng, _FLAGS))
    for name, value in values.items():
        line += [name] if value == "" and not options[name][1] else [name, value]
    return line


def _demo_line(rng: Rng, intact: bool) -> list[str]:
    options: Options = {
        "--out": ("out", _PATHS),
        "--count": ("1", _NUMBERS),
        "--size": ("16", _NUMBERS),
        "--noise": ("0.1", _NUMBERS),
        "--seed": ("3", _NUMBERS),
        "--json": ("", ()),
    }
    line = _spoilt(rng, ["demo"], options, intact)
    return [*line, *(() if "--count" in line else ("--count", "1")), "--size", "16"]


# Methods that work on the model in the folder, marginals too.
_SUITED = ("exact", "elimination", "lfield", "logistic", "trw", "mean_field", "bethe")


def _bounds_line(rng: Rng, intact: bool) -> list[str]:
    options: Options = {
        "--method": (pick(rng, _SUITED), (*METHODS, "ti", "ais", "bete", "", "[/x]")),
        "--evidence": ("model.uai.evid", (*_PATHS, "model.uai", "bad.uai")),
        "--seed": ("3", _NUMBERS),
        "--budget": ("1e6", _NUMBERS),
        "--marginals": ("", ()),
        "--json": ("", ()),
    }
    file = "model.uai" if intact or rng.integers(4) else pick(rng, (*_PATHS, "bad.uai"))
    return _spoilt(rng, ["bounds", file], options, intact)


def _reproduce_line(rng: Rng, intact: bool) -> list[str]:
    name = pick(rng, ("figure1", "figure2", "table1", "table2", "calibration"))
    if not intact and rng.integers(10) == 0:
        name = pick(rng, ("figure3", "", "all", "[/x]", "--help"))
    options: Options = {
        "--out": ("out", _PATHS),
        "--data": ("data", _PATHS),
        "--seeds": ("1", _NUMBERS),
        "--jobs": ("1", (*_NUMBERS, "-99999999999", "99999999999")),
        "--quick": ("", ()),
    }
    return _spoilt(rng, ["reproduce", name], options, intact)


def _group_line(rng: Rng, intact: bool) -> list[str]:
    if intact:
        return pick(rng, ([], ["-h"], ["--version"], ["demo", "-h"], ["reproduce"]))
    count = int(rng.integers(1, 4))
    return [pick(rng, (*_FLAGS, *_NUMBERS, *_PATHS, "demo", "bounds")) for _ in range(count)]


def _target(make: Callable[[Rng, bool], list[str]]) -> Callable[..., CommandLine]:
    return lambda rng, intact: CommandLine(make(rng, intact))


def _process(rng: Rng, intact: bool) -> CommandLine:
    make = _bounds_line if intact else pick(rng, (_bounds_line, _group_line))
    return CommandLine(make(rng, intact), alone=True)


TARGETS = {
    "demo": _target(_demo_line),
    "bounds": _target(_bounds_line),
    "reproduce": _target(_reproduce_line),
    "no command": _target(_group_line),
    "process": _process,
}
