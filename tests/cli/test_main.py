import os
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

import logsuper
from logsuper.cli import main


@pytest.fixture
def run():
    return lambda *arguments: CliRunner().invoke(main, list(arguments), prog_name="logsuper")


def test_version(run):
    result = run("--version")
    assert result.exit_code == 0
    assert result.output == f"logsuper, version {logsuper.__version__}\n"


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_help_lists_the_commands(run, arguments):
    result = run(*arguments)
    assert result.exit_code == 0
    for name, command in main.commands.items():
        assert name in result.output
        assert command.help


@pytest.mark.parametrize("name", sorted(main.commands))
def test_each_option_is_explained(run, name):
    assert run(name, "--help").exit_code == 0
    for parameter in main.commands[name].params:
        assert isinstance(parameter, click.Argument) or parameter.help, parameter.name


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nonsense",), "No such command 'nonsense'"),
        (("demo", "--noise", "0.7"), "--noise"),
        (("demo", "--size", "3"), "--size"),
        (("demo", "--colour"), "No such option"),
        (("demo", "--noise", "nan"), "--noise"),
        (("demo", "--noise", "inf"), "--noise"),
        (("demo", "--seed", str(10**30)), "--seed"),
        (("demo", "--seed", "1e30"), "--seed"),
        (("demo", "--out", "a\udcff"), r"--out': 'a\udcff' is not UTF-8"),
        (("demo", "--out", "a\nb"), r"--out': 'a\nb' is not UTF-8, or has a control character"),
        (("demo", "--out", "\x1b[2J"), "--out"),
        (("demo", "--no\nsuch\x1b"), "No such option"),
        (("bounds", "a\udcff.uai"), "FILE"),
        (("bounds", "missing\n.uai"), "FILE"),
        (("reproduce", "all", "--out", "x", "--jobs", str(10**30)), "--jobs"),
        (("reproduce", "all", "--out", "a\udcff"), "--out"),
        (("reproduce", "all", "--out", "x", "--data", "a\udcff"), "--data"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run, arguments, words, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 2 and isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert words in result.stderr
    assert "\x1b" not in result.stderr and not list(tmp_path.iterdir())


def test_a_terminal_without_the_letters_gets_them_escaped(tmp_path):
    path = tmp_path / "größe.uai"
    path.write_text("MARKOV 2 2 2 1 2 0 1 4 2 1 1 2")
    command = [sys.executable, "-m", "logsuper.cli", "bounds", str(path), "--method", "lfield"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr
    assert r"gr\xf6\xdfe.uai: 2 variables" in result.stdout


def test_runs_as_a_module():
    command = [sys.executable, "-m", "logsuper.cli", "--version"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert logsuper.__version__ in result.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="signals as on Unix")
def test_ctrl_c_is_one_line_and_exit_code_130():
    code = """
import os, signal, time
from logsuper.cli import main

@main.command()
def wait():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)

main(["wait"])
"""
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "Interrupted.\n")


def test_ctrl_c_while_the_commands_are_loaded():
    code = """
import sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "logsuper.cli._main":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Finder())
from logsuper.cli import main
"""
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "Interrupted.\n")
