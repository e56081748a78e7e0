"""The checker of the built documentation finds what is broken, and nothing else."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def checker():
    spec = importlib.util.spec_from_file_location("check_links", ROOT / "docs" / "check_links.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GOOD = '<a href="b/two.html#there">x</a><a href="#top">y</a><img src="p.png"><a id="here"></a>'


def write(folder, one):
    (folder / "b").mkdir(exist_ok=True)
    (folder / "p.png").write_bytes(b"")
    (folder / "one.html").write_text(one, encoding="utf-8")
    text = '<h1 id="there">t</h1><a href="../one.html#here">back</a><a href="https://x.org">x</a>'
    (folder / "b" / "two.html").write_text(text, encoding="utf-8")


def test_good_pages_pass(checker, tmp_path, capsys):
    write(tmp_path, GOOD)
    assert checker.main(tmp_path) == 0
    assert capsys.readouterr().out == "2 pages, 4 links, 1 more to other sites; 0 faults\n"


@pytest.mark.parametrize(
    ("html", "fault"),
    [
        ('<a href="three.html">x</a>', "three.html leads nowhere"),
        ('<a href="../outside.html">x</a>', "leads nowhere"),
        ('<a href="b/two.html#nowhere">x</a>', "no such anchor"),
        ('<img src="gone.png">', "gone.png leads nowhere"),
        ('<script src="https://x.org/a.js"></script>', "from the internet"),
        ('<link rel="stylesheet" href="https://x.org/a.css">', "from the internet"),
    ],
)
def test_faults_are_found(checker, tmp_path, capsys, html, fault):
    write(tmp_path, GOOD + html)
    assert checker.main(tmp_path) == 1
    assert fault in capsys.readouterr().out


def test_an_empty_folder_is_a_fault(checker, tmp_path):
    assert checker.main(tmp_path) == 1
