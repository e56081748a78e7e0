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

import numpy as np
from click.testing import CliRunner

import logsuper as ls
from logsuper import experiments
from logsuper.bounds._methods import METHODS
from logsuper.cli import _demo, main
from logsuper.experiments import figure1
from logsuper.io import write_image
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
        _write_masks(folder)
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)


@functools.cache
def _denoiser() -> bytes:
    """Return a file with a small model."""
    clean = ls.make_silhouettes(3, (16, 16), seed=0)
    noisy = ls.Flips(0.1).sample(clean, seed=1)
    model = ls.MaskDenoiser(0.1, max_iter=2, modular="shared").fit(noisy, clean)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.npz")
        return (Path(folder) / "model.npz").read_bytes()


def _write_masks(folder: Path) -> None:
    """Write noisy and clean masks, grey ones, broken files and a model."""
    clean = 255 * ls.make_silhouettes(3, (16, 16), seed=0)
    rng = np.random.default_rng(0)
    for i, mask in enumerate(clean):
        flips = np.where(rng.random(mask.shape) < 0.1, 255, 0).astype(np.uint8)
        write_image(folder / "noisy" / f"{i}.png", mask ^ flips)
        write_image(folder / "clean" / f"{i}.tif", mask)
        write_image(folder / "grey" / f"{i}.png", mask // 2 + flips // 4 + i)
    (folder / "broken").mkdir()
    (folder / "broken" / "0.png").write_bytes((folder / "noisy" / "0.png").read_bytes()[:60])
    (folder / "broken" / "1.tif").write_bytes(b"II*\0")
    (folder / "broken" / "2.npy").touch()
    (folder / "mask.npz").write_bytes(_denoiser())
    (folder / "broken.npz").write_bytes(_denoiser()[:-9])


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
    if code == 1 and any(line.startswith("Left out: ") for line in lines):
        return Verdict(RESULT)  # some of the files
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
        "--write": ("results", (*_PATHS, "noisy")),
        "--force": ("", ()),
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


_READING: Options = {
    "--threshold": ("0.5", (*_NUMBERS, "otsu", "Otsu")),
    "--missing": ("alpha", (*_NUMBERS, "red", "nan", "#ff0000", "#12345", "rgb(1,2)", "alpha ")),
    "--volume": ("slices", ("whole", "", "[/x]")),
    "--jobs": ("1", (*_NUMBERS, "-99999999999", "99999999999")),
    "--force": ("", ()),
    "--json": ("", ()),
}
_LEARNING: Options = {
    "--clean": ("clean", (*_PATHS, "noisy", "data")),
    "--noise": ("0.1", (*_NUMBERS, "auto", "0.5")),
    "--seed": ("3", _NUMBERS),
}
_WRITING: Options = {
    "--out": ("out", (*_PATHS, "noisy", "noisy/out", "clean", "mask.npz")),
    **{f"--{name}": ("", ()) for name in ("probabilities", "uncertain", "compare")},
}
_MODELS = (*_PATHS, "mask.npz", "model.uai", "noisy", "broken.npz")


def _inputs(rng: Rng, intact: bool) -> list[str]:
    if intact or rng.integers(3):
        return ["noisy"]
    names = (*_PATHS, "noisy/0.png", "noisy/1.png", "grey", "broken", "clean", "model.uai", "data")
    return [pick(rng, names) for _ in range(int(rng.integers(1, 4)))]


def _denoise_line(rng: Rng, intact: bool) -> list[str]:
    options = _WRITING | _READING | _LEARNING | {"--save-model": ("saved.npz", _MODELS)}
    if not intact and rng.integers(3) == 0:
        options |= {"--model": ("mask.npz", _MODELS)}
    return _spoilt(rng, ["denoise", *_inputs(rng, intact)], options, intact)


def _fit_line(rng: Rng, intact: bool) -> list[str]:
    line = _spoilt(rng, ["fit", *_inputs(rng, intact)], _READING | _LEARNING, intact)
    saved = "saved.npz" if intact or rng.integers(2) else pick(rng, _MODELS)
    return [*line, "--save-model", saved]


def _apply_line(rng: Rng, intact: bool) -> list[str]:
    line = _spoilt(rng, ["apply", *_inputs(rng, intact)], _WRITING | _READING, intact)
    return [*line, "--model", "mask.npz" if intact or rng.integers(2) else pick(rng, _MODELS)]


def _info_line(rng: Rng, intact: bool) -> list[str]:
    options: Options = {"--json": ("", ())}
    file = "mask.npz" if intact else pick(rng, _MODELS)
    return _spoilt(rng, ["info", file], options, intact)


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
    "denoise": _target(_denoise_line),
    "fit": _target(_fit_line),
    "apply": _target(_apply_line),
    "info": _target(_info_line),
    "no command": _target(_group_line),
    "process": _process,
}
