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
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run, arguments, words):
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert words in result.stderr


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
