"""`logsuper studio`, as a user starts it."""

import socket
import sys

import numpy as np
import pytest
from click.testing import CliRunner

from logsuper.cli import main


def run(*arguments):
    return CliRunner().invoke(main, ["studio", "--no-browser", *map(str, arguments)])


def one_line(result, words):
    assert result.exit_code == 2 and words in result.output
    assert result.output.count("\n") == 1 and result.output.startswith("Error: ")


@pytest.mark.parametrize("name", ["uvicorn", "websockets", "starlette.applications"])
def test_without_the_extra(monkeypatch, name):
    for module in [m for m in sys.modules if m.startswith("logsuper.studio.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, name, None)
    one_line(run(), "pip install 'logsuper[studio]'")


def test_files_that_cannot_be_shown(tmp_path):
    pytest.importorskip("uvicorn", reason="the extra studio is not installed")
    (tmp_path / "a.png").write_bytes(b"no image")
    np.save(tmp_path / "volume.npy", np.zeros((4, 5, 6)))
    one_line(run(tmp_path / "absent.png"), "does not exist")
    one_line(run(tmp_path / "a.png"), "a.png: is not an image of a known format")
    one_line(run(tmp_path / "volume.npy"), "a volume")
    one_line(run(tmp_path), "is a folder")


def test_ports_that_cannot_be_had():
    pytest.importorskip("uvicorn", reason="the extra studio is not installed")
    one_line(run("--port", 70_000), "--port")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        one_line(run("--port", port), f"port {port}: ")
