"""The list of experiments, and the report on them with all that is needed to repeat them."""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import time
from collections.abc import Sequence

from logsuper.experiments._job import Job
from logsuper.experiments._setting import Setting
from logsuper.report import Page, Section, Words, duration, versions

EXPERIMENTS = ("figure1", "figure2", "table1", "table2", "calibration")
"""The experiments in the order of the report: modules with a function `run`."""


def run_experiment(name: str, setting: Setting, job: Job) -> Section:
    """Run an experiment, and return its section with the time that it took."""
    start = time.perf_counter()
    section: Section = importlib.import_module(f"logsuper.experiments.{name}").run(setting, job)
    return dataclasses.replace(section, seconds=time.perf_counter() - start)


def make_page(
    sections: Sequence[Section], setting: Setting, command: str, quick: bool = False
) -> Page:
    """Return the page with the sections of a run and all that is needed to repeat it.

    Parameters
    ----------
    sections : sequence of Section
    setting : Setting
        The images that the sections use.
    command : str
        Command that makes this report.
    quick : bool
        Whether this is a quick run, which the title then says.

    Returns
    -------
    Page

    Examples
    --------
    >>> from logsuper.experiments import load_setting, make_page
    >>> from logsuper.report import Section
    >>> setting = load_setting(train=2, test=2, shape=(16, 16))
    >>> section = Section("table1", "Table 1", ("Fine.",), seconds=61.0)
    >>> page = make_page([section], setting, "logsuper reproduce table1")
    >>> dict(page.facts)["time of this run"]
    'table1 1 min 1 s'
    """
    images = any(section.images for section in sections)
    said = Words("logsuper.experiments", "report", setting=setting, images=images, quick=quick)
    spent = ", ".join(f"{section.name} {duration(section.seconds)}" for section in sections)
    if len(sections) > 1:
        spent += f"; {duration(sum(section.seconds for section in sections))} in all"
    seeds = {section.name: ", ".join(map(str, section.seeds)) for section in sections}
    if len(set(seeds.values())) == 1:  # seeds are listed per section only if they differ
        seeds = {"": seeds[sections[0].name]}
    facts = {
        "command": command,
        "made with": versions(),
        "data": said["data"],
        "seeds": "; ".join(f"{name} {listed}".strip() for name, listed in seeds.items()),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "time of this run": spent,
    }
    kept = tuple((name, fact) for name, fact in facts.items() if images or name != "data")
    return Page(said["title"], said["lead"], kept, tuple(sections))
