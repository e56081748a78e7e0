import base64
import csv
import html.parser
import io
import re

import pytest
from PIL import Image

import logsuper
from logsuper.experiments import _html, _markdown, _origin, report
from logsuper.experiments._pages import numeric
from logsuper.experiments._section import Grid, Picture, Section
from logsuper.experiments._setting import load_setting

VOID = {"meta", "link", "img", "br"}


def png(colour):
    buffer = io.BytesIO()
    Image.new("RGB", (3, 2), colour).save(buffer, format="PNG")
    return buffer.getvalue()


GRID = Grid(
    "errors",
    "Errors & <more>",
    ("noise", "method|kind", "error"),
    (("1 %", "a_b*c*", "0.20 ± 0.01"), ("5 %", "<b>", "")),
    "A note.",
    (("noise", "method", "seed", "error"), ("0.01", 'quoted "x", y', "0", "0.123456789")),
    frozenset({(0, 2)}),
)
PICTURES = (
    Picture("open", png("red"), "Anyone may see <this>."),
    Picture("closed", png("blue"), "From the database.", shipped=False),
)
SECTIONS = (
    Section(
        "table1", "Table 1", ("p < 1 & q_i > 2", "Second paragraph."), (GRID,), (), 75.2, (0, 1, 2)
    ),
    Section("figure2", "Figure 2", (), (), PICTURES, 3.21, (0,)),
)


@pytest.fixture(scope="module")
def setting():
    return load_setting(train=3, test=2, shape=(16, 18))


@pytest.fixture(scope="module")
def made(setting):
    return report.make(SECTIONS, setting, "logsuper reproduce all --out x")


class Page(html.parser.HTMLParser):
    """Collects tags, attributes and text; fails where tags are not nested."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.words = [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def named(self, name):
        return [attributes for tag, attributes in self.tags if tag == name]

    @property
    def text(self):
        return " ".join(self.words)


def test_page_stands_alone(made):
    text = _html.page(made)
    page = Page(text)
    assert not page.named("script")
    assert not re.search(r"https?://|url\(|@import", text)
    links = [a["href"] for name in ("a", "link") for a in page.named(name)]
    assert links == ["#table1", "#figure2", "data:,"]
    identifiers = {a["id"] for _, a in page.tags if "id" in a}
    assert {"table1", "figure2"} <= identifiers
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in page.named(
        "meta"
    )
    assert "prefers-color-scheme: dark" in text


def test_page_has_pictures_inline_with_captions(made):
    page = Page(_html.page(made))
    found = [a["src"].removeprefix("data:image/png;base64,") for a in page.named("img")]
    assert [base64.b64decode(data) for data in found] == [picture.png for picture in PICTURES]
    assert [a["alt"] for a in page.named("img")] == [picture.caption for picture in PICTURES]
    assert len(page.named("figcaption")) == 2


def test_page_shows_text_as_it_is(made):
    page = Page(_html.page(made))
    for words in ("p < 1 & q_i > 2", "Errors & <more>", "a_b*c*", "<b>", "Anyone may see <this>."):
        assert words in page.text
    assert [a for a in page.named("td") if "best" in a.get("class", "")] == [
        {"class": "number best"}
    ]
    assert page.named("div") == [
        {"class": "wide", "tabindex": "0", "role": "region", "aria-label": "Errors & <more>"}
    ]


def test_one_section_needs_no_contents(setting):
    page = Page(_html.page(report.make(SECTIONS[:1], setting, "x")))
    assert not page.named("nav")


def test_facts_suffice_to_repeat_it(made, setting):
    facts = dict(made.facts)
    assert facts["command"] == "logsuper reproduce all --out x"
    assert facts["seeds"] == "table1 0, 1, 2; figure2 0"
    assert f"logsuper {logsuper.__version__}" in facts["made with"]
    assert re.search(r"Python 3\.\d+\.\d+\S*, numpy \d", facts["made with"])
    assert setting.masks.fingerprint in facts["data"]
    assert setting.source in facts["data"]
    assert "16 × 18 pixels" in facts["data"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", facts["date"])
    assert facts["time of this run"] == "table1 1 min 15 s, figure2 3.2 s; 1 min 18 s in all"
    for text in (_html.page(made), _markdown.page(made)):
        assert setting.masks.fingerprint in text


def test_markdown(made):
    lines = _markdown.page(made).splitlines()
    assert lines[0].startswith("# ")
    assert "- command: `logsuper reproduce all --out x`" in lines
    assert "## Table 1" in lines and "### Errors & \\<more\\>" in lines
    head = lines.index("| noise | method\\|kind | error |")
    assert lines[head + 1] == "| ---: | --- | ---: |"
    assert lines[head + 2] == "| 1 % | a\\_b\\*c\\* | **0.20 ± 0.01** |"
    assert lines[head + 3] == "| 5 % | \\<b\\> |  |"
    assert "A note. [errors.csv](errors.csv)" in lines
    assert "![Anyone may see \\<this\\>.](open.png)" in lines


HOSTILE = "logsuper reproduce all --out 'a`b``c<script>alert(1)</script>|&lt;$x$'"


def test_what_users_type_is_shown_as_it_is():
    setting = load_setting(train=2, test=2, shape=(16, 16))
    section = Section("table1", "``<b>``", ("&amp; `x`\n# y", "R&D"))
    made = report.make([section], setting, HOSTILE)
    lines = _markdown.page(made).splitlines()
    # a code span ends at the first row of as many backticks as it began with
    [line] = [line for line in lines if line.startswith("- command: ")]
    assert line == f"- command: ``` {HOSTILE} ```"
    assert "## \\`\\`\\<b\\>\\`\\`" in lines
    assert "\\&amp; \\`x\\` \\# y" in lines and "R&D" in lines
    page = _html.page(made)
    assert "<script" not in page and "&lt;script&gt;" in page


def test_files(made, tmp_path):
    files = report.write(made, tmp_path / "new" / "folder")
    names = [file.name for file in files]
    assert names == ["report.html", "report.md", "errors.csv", "open.png"]
    assert sorted(names) == sorted(file.name for file in (tmp_path / "new" / "folder").iterdir())
    with open(files[2], newline="", encoding="utf-8") as file:
        assert tuple(map(tuple, csv.reader(file))) == GRID.csv
    assert files[3].read_bytes() == PICTURES[0].png


def test_pictures_that_may_not_be_passed_on_are_in_the_page_alone(made, tmp_path):
    files = report.write(made, tmp_path)
    inline = base64.b64encode(PICTURES[1].png).decode()
    assert inline in files[0].read_text(encoding="utf-8")
    copy = files[1].read_text(encoding="utf-8")
    assert "closed.png" not in copy
    assert "only in report.html" in copy and "passed on: 1.*" in copy
    assert not (tmp_path / "closed.png").exists()


def test_shown_cells_are_the_csv_where_there_is_no_other(setting, tmp_path):
    grid = Grid("plain", "Plain", ("a", "b"), (("1", "2"),))
    section = Section("s", "S", (), (grid,))
    report.write(report.make([section], setting, "x"), tmp_path)
    assert (tmp_path / "plain.csv").read_text() == "a,b\n1,2\n"


def test_two_tables_of_one_name_are_refused(setting, tmp_path):
    sections = [Section(name, name, (), (GRID,)) for name in ("one", "two")]
    with pytest.raises(ValueError, match=r"written to errors\.csv"):
        report.write(report.make(sections, setting, "x"), tmp_path)
    assert not list(tmp_path.iterdir())


def test_columns_of_numbers_are_found():
    cells = (
        "1",
        "-2.5",
        "−2.5",
        ".5",
        "+.1",
        "± 3",
        "< 0.1",
        "10 %",
        "",
        "–",
        "1.2 ± .1",
        "1 min 5 s",
    )
    rows = tuple((cell, "word", cell if i else "2 images") for i, cell in enumerate(cells))
    assert numeric(Grid("g", "G", ("a", "b", "c"), rows)) == [True, False, False]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.04, "40 ms"),
        (0.14, "0.1 s"),
        (9.9, "9.9 s"),
        (59.4, "59 s"),
        (59.7, "1 min 0 s"),
        (3599, "59 min 59 s"),
    ],
)
def test_duration(seconds, words):
    assert report.duration(seconds) == words


# ------------------------------------------------------------------------------ state of the source

DIGITS = "0123456789" * 4


@pytest.fixture
def clone(tmp_path):
    """A folder that looks like a clone; returns it, and its package."""
    package = tmp_path / "clone" / "src" / "logsuper"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    git = tmp_path / "clone" / ".git"
    git.mkdir()
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    return git, package


def test_commit_of_a_branch(clone):
    git, package = clone
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "refs" / "heads" / "main").write_text(DIGITS + "\n")
    assert _origin.commit(package) == DIGITS
    installed = package.parents[1] / ".venv" / "lib" / "logsuper"
    installed.mkdir(parents=True)
    assert _origin.commit(installed) == DIGITS


def test_commit_of_a_packed_branch_and_of_none(clone):
    git, package = clone
    assert _origin.commit(package) is None
    (git / "packed-refs").write_text(
        f"# pack-refs\n{'f' * 40} refs/heads/x\n{DIGITS} refs/heads/main\n"
    )
    assert _origin.commit(package) == DIGITS
    (git / "HEAD").write_text("a" * 40)
    assert _origin.commit(package) == "a" * 40
    (git / "HEAD").unlink()
    assert _origin.commit(package) is None


def test_commit_of_a_work_tree(clone, tmp_path):
    git, package = clone
    folder = tmp_path / "main" / ".git" / "worktrees" / "clone"
    folder.mkdir(parents=True)
    (git / "HEAD").rename(folder / "HEAD")
    git.rmdir()
    git.write_text(f"gitdir: {folder}\n")
    (folder / "commondir").write_text("../..\n")
    branches = tmp_path / "main" / ".git" / "refs" / "heads"
    branches.mkdir(parents=True)
    (branches / "main").write_text(DIGITS)
    assert _origin.commit(package) == DIGITS


def test_a_repository_of_something_else_does_not_count(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text(DIGITS)
    package = tmp_path / ".venv" / "lib" / "logsuper"
    package.mkdir(parents=True)
    assert _origin.commit(package) is None
