import base64
import csv
import html.parser
import io
import re

import pytest
from PIL import Image

from logsuper.report import Finding, Page, Picture, Section, Table, write_files

VOID = {"meta", "link", "img", "br"}


def png(colour):
    buffer = io.BytesIO()
    Image.new("RGB", (3, 2), colour).save(buffer, format="PNG")
    return buffer.getvalue()


TABLE = Table(
    "Errors & <more>",
    ("noise", "method|kind", "error"),
    (("1 %", "a_b*c*", "0.20 ± 0.01"), ("5 %", "<b>", "")),
    "A note.",
    "errors",
    data=(("noise", "method", "seed", "error"), ("0.01", 'quoted "x", y', "0", "0.123456789")),
    best=frozenset({(0, 2)}),
    quoted=frozenset({(0, 0), (1, 2)}),
)
PICTURES = (
    Picture("open", png("red"), "Anyone may see <this>."),
    Picture("closed", png("blue"), "From the database.", shipped=False),
)
TEXT = ("p < 1 & q_i > 2", Finding("It is <simple>.", "It is *not*."), "Second paragraph.")
SECTIONS = (
    Section("table1", "Table 1", TEXT, (TABLE,)),
    Section("figure2", "Figure 2", (), (), PICTURES),
)
FACTS = (("command", "logsuper reproduce all --out x"), ("made with", "Python <3>"))
PAGE = Page("A title & more", "The lead.", FACTS, SECTIONS)


class Parsed(html.parser.HTMLParser):
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


@pytest.fixture(scope="module")
def parsed():
    return Parsed(PAGE.html())


def test_page_stands_alone(parsed):
    text = PAGE.html()
    assert text.startswith("<!DOCTYPE html>\n")
    assert not parsed.named("script")
    assert not re.search(r"https?://|url\(|@import", text)
    links = [a["href"] for name in ("a", "link") for a in parsed.named(name)]
    assert links == ["#table1", "#figure2", "data:,"]
    identifiers = {a["id"] for _, a in parsed.tags if "id" in a}
    assert {"table1", "figure2"} <= identifiers
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in parsed.named(
        "meta"
    )
    assert "prefers-color-scheme: dark" in text
    policy = next(a for a in parsed.named("meta") if "http-equiv" in a)["content"]
    assert policy == "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def test_page_has_pictures_inline_with_captions(parsed):
    found = [a["src"].removeprefix("data:image/png;base64,") for a in parsed.named("img")]
    assert [base64.b64decode(data) for data in found] == [picture.png for picture in PICTURES]
    assert [a["alt"] for a in parsed.named("img")] == [picture.caption for picture in PICTURES]
    assert len(parsed.named("figcaption")) == 2


def test_page_shows_text_as_it_is(parsed):
    for words in (
        *("p < 1 & q_i > 2", "Errors & <more>", "a_b*c*", "<b>", "Anyone may see <this>."),
        *("A title & more", "Python <3>", "It is <simple>.", "It is *not*."),
    ):
        assert words in parsed.text
    classes = [a.get("class", "") for a in parsed.named("td")]
    assert classes == ["number paper", "", "number best", "number", "", "number paper"]
    assert [a.get("class") for a in parsed.named("th")] == ["number", None, "number"]
    assert parsed.named("div") == [
        {"class": "wide", "tabindex": "0", "role": "region", "aria-label": "Errors & <more>"}
    ]


def test_what_the_paper_says_is_set_apart(parsed):
    assert {"class": "finding"} in parsed.named("dl")
    assert parsed.named("dt").count({"class": "paper"}) == 1
    said, found = parsed.text.index("The paper says"), parsed.text.index("Found here")
    assert said < parsed.text.index("It is <simple>.") < found < parsed.text.index("It is *not*.")
    lines = PAGE.markdown().splitlines()
    place = lines.index("> **The paper says:** It is \\<simple\\>.")
    assert lines[place - 1 : place + 4] == [
        "",
        lines[place],
        "",
        "**Found here:** It is \\*not\\*.",
        "",
    ]


def test_one_section_needs_no_contents():
    assert not Parsed(Page("T", "L", (), SECTIONS[:1]).html()).named("nav")


def test_markdown():
    lines = PAGE.markdown().splitlines()
    assert lines[0] == "# A title & more"
    assert "- command: `logsuper reproduce all --out x`" in lines
    assert "- made with: Python \\<3\\>" in lines
    assert "## Table 1" in lines and "### Errors & \\<more\\>" in lines
    head = lines.index("| noise | method\\|kind | error |")
    assert lines[head + 1] == "| ---: | --- | ---: |"
    assert lines[head + 2] == "| *1 %* | a\\_b\\*c\\* | **0.20 ± 0.01** |"
    assert lines[head + 3] == "| 5 % | \\<b\\> |  |"
    assert "A note. [errors.csv](errors.csv)" in lines
    assert "![Anyone may see \\<this\\>.](open.png)" in lines
    assert "\n\n\n" not in PAGE.markdown() and PAGE.markdown()[-2:] != "\n\n"


HOSTILE = "logsuper reproduce all --out 'a`b``c<script>alert(1)</script>|&lt;$x${{ 1 }}'"


def test_what_users_type_is_shown_as_it_is():
    section = Section("table1", "``<b>``", ("&amp; `x`\n# y", "R&D", "{{ 7 * 7 }}"))
    page = Page("T", "L", (("command", HOSTILE), ("folder", HOSTILE)), (section,))
    lines = page.markdown().splitlines()
    # a code span ends at the first row of as many backticks as it began with
    [line] = [line for line in lines if line.startswith("- command: ")]
    assert line == f"- command: ``` {HOSTILE} ```"
    assert "## \\`\\`\\<b\\>\\`\\`" in lines
    assert "\\&amp; \\`x\\` \\# y" in lines and "R&D" in lines
    assert "{{ 7 \\* 7 }}" in lines
    assert "<script" not in page.html() and "&lt;script&gt;" in page.html()
    assert "{{ 7 * 7 }}" in page.html()


def test_files(tmp_path):
    paths = write_files(PAGE.files(), tmp_path / "new" / "folder")
    names = [path.name for path in paths]
    assert names == ["report.html", "report.md", "errors.csv", "open.png"]
    assert sorted(names) == sorted(path.name for path in (tmp_path / "new" / "folder").iterdir())
    with open(paths[2], newline="", encoding="utf-8") as file:
        assert tuple(map(tuple, csv.reader(file))) == TABLE.data
    assert paths[3].read_bytes() == PICTURES[0].png


def test_pictures_that_may_not_be_passed_on_are_in_the_page_alone():
    files = PAGE.files()
    assert base64.b64encode(PICTURES[1].png) in files["report.html"]
    copy = files["report.md"].decode()
    assert "closed.png" not in copy
    assert "only in report.html" in copy and "published: 1.*" in copy
    assert "closed.png" not in files


def test_two_tables_of_one_name_are_refused():
    page = Page("T", "L", (), tuple(Section(x, x, (), (TABLE,)) for x in ("one", "two")))
    with pytest.raises(ValueError, match=r"written to errors\.csv"):
        page.files()
