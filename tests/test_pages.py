"""Every block of code in the pages runs, and prints what the page says."""

import re
from pathlib import Path

import pages
import pytest

PAGES = pages.pages()


def check_readme(names):
    assert (names["masks"] != names["clean"]).mean() < 0.03
    assert ((names["probabilities"] > 0.5) != names["clean"]).mean() < 0.03
    assert (names["cut"].mask != names["outlines"][0]).mean() < 0.1
    assert (names["best"] != names["clean"][0]).mean() < 0.04
    assert names["bracket"].lower <= names["bracket"].upper
    assert (names["mu"].lower <= names["mu"].upper).all()
    assert names["X"].shape == (10, 50, 50)


def check_many_problems(names):
    assert (names["restored"] != names["clean"]).mean() < 0.04
    assert (names["smaller"] <= names["larger"]).all()
    assert ((names["frequency"] > 0.5) != names["clean"]).mean() < 0.04


def check_families(names):
    assert names["report"]


def check_theory(names):
    assert names["exact"] < names["logistic"] < names["above"]


def check_learning(names):
    assert abs(names["denoiser"].noise_ - 0.1) < 0.02 and names["fit"].converged


def check_crf(names):
    assert Path("crf.npz").exists() and names["loss"].shape == (12,)


CLAIMS = {
    "README": check_readme,
    "many_problems": check_many_problems,
    "families": check_families,
    "theory": check_theory,
    "learning": check_learning,
    "crf": check_crf,
}
"""What must hold after a page has run; other pages say it in hidden code of their own."""

LEAST = {"README": 3, "many_problems": 4, "learning": 2, "crf": 4}
"""Minimum numbers of blocks, lest the checks above look at nothing."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", pages.WIDTH)
    monkeypatch.setenv("MPLBACKEND", "agg")
    steps, names = pages.run(page)
    assert len(steps) >= LEAST.get(page.stem, 1)
    assert not (wrong := pages.differences(page, steps)), wrong
    CLAIMS.get(page.stem, lambda names: None)(names)


def test_claims_are_about_pages():
    assert set(CLAIMS) | set(LEAST) <= {page.stem for page in PAGES}


def test_readme_has_two_screens():
    assert len((pages.ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 110


def test_tutorials_and_guides_have_code():
    for folder in ("tutorials", "guides"):
        written = [page for page in (pages.DOCS / folder).glob("*.md") if page.stem != "index"]
        assert written
        for page in written:
            languages = {block.language for block in pages.blocks(page)}
            assert languages & {"python", "sh"}, page


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


def test_blocks_that_import_what_is_not_installed_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "OPTIONAL", "absent_module|json")
    text = "```python\nimport json\n```\n\n```python\nimport absent_module\n```\n"
    [step], names = pages.run(_page(tmp_path, text))
    assert "json" in names and step.code.line == 2


def test_commands_go_on_after_a_backslash_and_interactive_ones_are_not_run(tmp_path):
    page = _page(tmp_path, "```sh\nmake install\nlogsuper \\\n  --version\nlogsuper studio\n```\n")
    [step], _ = pages.run(page)
    assert step.printed.startswith("logsuper, version") and step.printed.count("\n") == 1
    assert pages.run(_page(tmp_path, "no code")) == ([], {"__name__": "__main__"})


def test_links_lead_somewhere():
    documents = [*pages.ROOT.glob("*.md"), *pages.DOCS.rglob("*.md")]
    for page in documents:
        for link in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
            if "://" not in link:
                assert (page.parent / link).exists(), f"{page.name}: {link}"
