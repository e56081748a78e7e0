import re
import sys
from pathlib import Path

import jinja2
import pytest

import logsuper
from logsuper.report import Finding, Words

PACKAGE = Path(logsuper.__file__).parent


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with the words `one.txt`, which are returned as they are given."""
    (tmp_path / "spoken" / "words").mkdir(parents=True)
    (tmp_path / "spoken" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "spoken", raising=False)

    def write(text, **values):
        (tmp_path / "spoken" / "words" / "one.txt").write_text(text, encoding="utf-8")
        return Words("spoken", "one", **values)

    return write


def test_paragraphs_and_findings(package):
    said = package(
        """{% set title = "Title" %}
        {% set text %}
        First, {{ x | form(".2f") }}
        of <all>.
        {% if x > 1 %}

        Not this.
        {% endif %}

        {% if x < 1 %}
        The paper.
        =>
        {% for word in ("a", "b") %}
        Found {{ word }}.
        {% endfor %}
        {% endif %}
        {% endset %}""",
        x=0.125,
    )
    assert said.paragraphs("text") == (
        "First, 0.12 of <all>.",
        Finding("The paper.", "Found a. Found b."),
    )
    assert said.section("one", seeds=(3,)).title == said["title"] == "Title"
    assert said.section("one", seeds=(3,)).seeds == (3,)


def test_a_table_has_its_title_and_note(package):
    said = package('{% set t_title = "T" %}{% set t_note %}\nA\nnote.\n{% endset %}')
    table = said.table("t", ["a"], [[1.0]], format=".1f")
    assert (table.name, table.title, table.note) == ("t", "T", "A note.")
    assert table.rows == (("1.0",),)


def test_a_value_that_is_missing_is_an_error(package):
    with pytest.raises(jinja2.UndefinedError, match="'y' is undefined"):
        package("{% set text %}{{ y }}{% endset %}", x=1)
    with pytest.raises(KeyError, match="other"):
        package("{% set text %}x{% endset %}")["other"]


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("*/words/*.txt")), ids=lambda path: path.stem)
def test_words_are_installed_and_plain(path):
    """No Markdown, HTML or line that is too long for an editor."""
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"</|\*\*|`|\t", text)
    assert max(map(len, text.splitlines())) <= 120
