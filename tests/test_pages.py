"""Every block of code in the pages runs, and prints what the page says."""

import re

import pytest

import pages

PAGES = pages.pages()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", pages.WIDTH)
    monkeypatch.setenv("MPLBACKEND", "agg")
    steps, _ = pages.run(page)
    assert steps
    assert not (wrong := pages.differences(page, steps)), wrong


def test_tutorials_and_guides_have_code():
    for folder in ("tutorials", "guides"):
        written = [page for page in (pages.DOCS / folder).glob("*.md") if page.stem != "index"]
        assert written and set(written) <= set(PAGES)


def _page(folder, text):
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    return page


def test_blocks_share_names_and_print(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    text = "```python\nx = 1\n```\n\n<!-- run\nx += 1\n-->\n\n```python\nprint(x)\n```\n\n"
    page = _page(tmp_path, text + "```text\n2\n```\n")
    steps, names = pages.run(page)
    assert len(steps) == 3 and names["x"] == 2 and not pages.differences(page, steps)

    page = _page(tmp_path, text + "```text\n3\n```\n")
    steps, _ = pages.run(page)
    assert "line 14" in pages.differences(page, steps)
    pages.rewrite(page, steps)
    assert page.read_text(encoding="utf-8").endswith("```text\n2\n```\n")


@pytest.mark.parametrize(
    ("printed", "said", "same"),
    [
        ("7 pixels in 0.2 s", "7 pixels in 31 s", True),
        ("7 pixels in 0.2 s", "8 pixels in 0.2 s", False),
        ("0.125 and 3e-05", "0.126  and\n2e-05", True),
        ("0.125", "0.127", False),
        ("0.125", "0.12", True),
        ("120", "121", False),
        ("<lower bound 1.5>", "<upper bound 1.5>", False),
        ("1.5", "", False),
    ],
)
def test_only_durations_and_last_digits_may_differ(printed, said, same):
    assert pages.agree(printed, said) is same


def test_failing_blocks_are_found(tmp_path):
    with pytest.raises(ZeroDivisionError) as error:
        pages.run(_page(tmp_path, "text\n\n```python\nx = 1\nx / 0\n```\n"))
    assert error.traceback[-1].lineno == 4  # counted from 0: line 5 of the page
    with pytest.raises(AssertionError, match=r"line 2: .*absent"):
        pages.run(_page(tmp_path, "```sh\nlogsuper info absent.npz\n```\n"))
    with pytest.raises(AssertionError, match="line 2: rm is neither"):
        pages.run(_page(tmp_path, "```sh\nrm file\n```\n"))


def test_links_lead_somewhere():
    documents = [*pages.ROOT.glob("*.md"), *pages.DOCS.rglob("*.md")]
    for page in documents:
        for link in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
            if "://" not in link:
                assert (page.parent / link).exists(), f"{page.name}: {link}"
