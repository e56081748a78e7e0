import pytest

from logsuper.cli._console import print_table
from logsuper.report import Table

ROWS = (
    ("superdifferential", "a bound from below", "-55.376187", "0.011"),
    ("mean_field", "", "-55.368166", ""),
    ("[bold]x[/bold]", "another one", "1 %", "100.000"),
)
HEAD = ("method", "what it is", "log10 Z", "standard error")


@pytest.mark.parametrize("width", [20, 40, 56, 62, 66, 80, 200])
def test_nothing_is_cut_off(capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    print_table(Table("A table", HEAD, ROWS))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    assert all(line[-1] in "┓┃┩│┘" for line in lines[1:])
    for j, name in enumerate(HEAD):
        # the pieces of a column one below the other
        found = "".join(
            line.replace("┃", "│").split("│")[1 + j].strip() for line in lines if line[0] in "┃│"
        )
        cells = "".join(row[j] for row in ROWS)
        assert found.replace(" ", "") == (name + cells).replace(" ", "")


def test_words_and_numbers_stay_whole_where_there_is_room(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "70")
    print_table(Table("A table", HEAD, ROWS))
    out = capsys.readouterr().out
    for word in ("superdifferential", "-55.376187", "[bold]x[/bold]", "another", "100.000"):
        assert f"│ {word} " in out or f" {word} │" in out


def test_a_table_with_a_file_is_not_broken(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    print_table(Table("A table", HEAD, ROWS, name="bounds"))
    assert capsys.readouterr().out.split() == (
        "A table: too wide for this terminal, see bounds.csv".split()
    )


def test_an_empty_table(capsys):
    print_table(Table("Nothing", ("a", "b"), ()))
    assert "Nothing" in capsys.readouterr().out
