"""A while of the fuzz and a few kills; and the fuzz finds what it should find.

The kernels are attacked by `tests/fuzzing/test_kernels.py`.
"""

import ast
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests import fuzz
from tests.fuzzing import arrays
from tests.fuzzing.outcomes import CLEAR, CRASH, HANG, OPAQUE, RESULT, WRONG
from tests.fuzzing.runner import Report, run

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="needs signals, forks and limits on memory"
)


def assert_clean(report: Report) -> None:
    told = [
        f"{f.outcome}: python -m tests.fuzz --replay {f'{f.attack}:{f.target}:{f.number}'!r}\n"
        f"    {f.message}"
        for f in report.failures
    ]
    told += [f"unreached: {report.attack}: {target}" for target in report.unreached]
    assert report.clean, "\n".join(told)


# so many cases, not seconds: the same ones on every machine
@pytest.mark.parametrize(("attack", "cases"), [("arrays", 6), ("files", 40), ("cli", 4)])
def test_a_while_of_it(attack, cases):
    assert_clean(run(attack, seed=0, cases=cases))


def test_kills():
    done = subprocess.run(
        [sys.executable, "-m", "tests.kill", "--times", "3"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 failures" in done.stdout


# ---------------------------------------------------------------------------------- the fuzz itself


def test_every_public_callable_is_attacked():
    tree = ast.parse((ROOT / "src" / "logsuper" / "__init__.pyi").read_text(encoding="utf-8"))
    names = {
        alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module != "logsuper"
        for alias in node.names
    }
    # what others return, raise or warn of
    names -= {"Bound", "Bracket", "LabelLosses", "Marginals", "Perturbed", "SubmodularityReport"}
    names -= {"Tiled"}
    names -= {name for name in names if name.endswith("Warning")}
    names -= {"NotApplicable", "NotCoalesced", "TooLarge"}
    # read by the fuzz of files
    names -= {"load_model"}
    missing = [name for name in names if not any(name in target for target in arrays.TARGETS)]
    assert not missing


@pytest.fixture(scope="module")
def bad():
    """Return what was found in a library that does everything wrong, one case each."""
    return run("bad", seed=0, cases=1)


@pytest.mark.parametrize(
    ("target", "outcome"),
    [
        ("answer", RESULT),
        ("refuse", CLEAR),
        ("index", OPAQUE),
        ("from_numpy", OPAQUE),
        ("warn", OPAQUE),
        ("print", OPAQUE),
        ("allocate", OPAQUE),
        ("crash", CRASH),
        ("spin", HANG),
        ("sleep", HANG),
        ("lie", WRONG),
    ],
)
def test_outcomes(bad, target, outcome):
    assert dict(bad.counts[target]) == {outcome: 1}


def test_a_target_without_results_is_a_failure(bad):
    assert "refuse" in bad.unreached and "answer" not in bad.unreached
    assert not bad.clean


def test_a_failure_of_a_kernel_is_one():
    report = fuzz.report_of_kernels(Counter({("grid", RESULT): 5, ("grid", CRASH): 2}))
    assert not report.clean and report.failures[0].message == "2 times"


def test_the_same_seed_gives_the_same_cases(capsys):
    for _ in range(2):
        assert fuzz.main(["--replay", "arrays:Cut:4", "--seed", "3"]) == 0
    first, second = capsys.readouterr().out.split("Cut\n")[1:]
    assert first == second


def test_the_command(capsys):
    line = ["--only", "files", "--target", "UAI", "--calls", "6"]
    assert fuzz.main(line) == 0
    said = capsys.readouterr().out
    assert "all 12" in said and said.endswith("clean\n")


def test_the_command_fails_and_says_how_to_repeat(capsys, monkeypatch):
    monkeypatch.setattr(fuzz, "ATTACKS", (*fuzz.ATTACKS, "bad"))
    assert fuzz.main(["--only", "bad", "--target", "lie", "--calls", "2"]) == 1
    said = capsys.readouterr().out
    assert "wrong (2 times): lie: two and two are five" in said
    assert "python -m tests.fuzz --seed 0 --replay 'bad:lie:0'" in said
    assert os.fspath(ROOT) not in said
