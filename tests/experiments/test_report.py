import re

import pytest

from logsuper.experiments import EXPERIMENTS, Job, load_setting, make_page, run_experiment
from logsuper.report import Section

SECTIONS = (
    Section("table1", "Table 1", ("Text.",), seeds=(0, 1, 2), seconds=75.2),
    Section("figure2", "Figure 2", seeds=(0,), seconds=3.21),
)


@pytest.fixture(scope="module")
def setting():
    return load_setting(train=3, test=2, shape=(16, 18))


def test_facts_suffice_to_repeat_it(setting):
    page = make_page(SECTIONS, setting, "logsuper reproduce all --out x")
    facts = dict(page.facts)
    assert facts["command"] == "logsuper reproduce all --out x"
    assert facts["seeds"] == "table1 0, 1, 2; figure2 0"
    assert facts["made with"].startswith("logsuper ")
    assert setting.masks.fingerprint in facts["data"]
    assert setting.source in facts["data"]
    assert "16 × 18 pixels" in facts["data"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", facts["date"])
    assert facts["time of this run"] == "table1 1 min 15 s, figure2 3.2 s; 1 min 18 s in all"
    for text in (page.html(), page.markdown()):
        assert setting.masks.fingerprint in text


def test_what_is_about_no_image_names_no_data(setting):
    section = Section("figure1", "Figure 1", seeds=(0, 1), images=False)
    page = make_page([section], setting, "x")
    assert "data" not in dict(page.facts) and "pixels" not in page.lead
    assert dict(page.facts)["seeds"] == "0, 1"


def test_a_quick_run_says_so_in_its_title(setting):
    title, quick = (make_page(SECTIONS, setting, "x", q).title for q in (False, True))
    assert "quick" not in title and quick == f"{title} (quick run: smaller settings, fewer seeds)"


def test_an_experiment_is_timed(setting):
    assert EXPERIMENTS == ("figure1", "figure2", "table1", "table2", "calibration")
    section = run_experiment("figure2", setting, Job((3, 4), quick=True))
    assert section.name == "figure2" and section.seeds == (3,) and section.seconds > 0


@pytest.mark.parametrize(
    ("seeds", "error", "words"),
    [
        ([], ValueError, "seeds is empty"),
        ([0, 0], ValueError, "seeds has an entry twice"),
        ([-1], ValueError, r"seeds\[0\] must be at least 0"),
        ([0.5], TypeError, r"seeds\[0\] must be an integer"),
        ("01", TypeError, "seeds must be a list"),
        (3, TypeError, "seeds must be a list"),
    ],
)
def test_seeds_are_checked(seeds, error, words):
    with pytest.raises(error, match=words):
        Job(seeds)
