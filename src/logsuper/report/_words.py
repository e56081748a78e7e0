"""Texts of reports, kept as templates outside the code and filled in with numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from logsuper.report._page import Finding, Section, make_environment
from logsuper.report._table import Table


class Words:
    """The texts of a template, filled in.

    A template names its texts by ``{% set name %} ... {% endset %}``. Empty lines separate
    paragraphs; ``=>`` separates a statement of the paper from the result of this run. A missing
    value is an error.

    Parameters
    ----------
    package : str
        The package with the folder ``words``.
    template : str
        Name of a file in that folder, without its suffix ``.txt``.
    **values
        Variables of the template. A number is written as ``{{ value | form(".2f") }}``, several
        numbers as ``{{ values | each(".2f") }}``, with slashes between them.
    """

    def __init__(self, package: str, template: str, **values: Any) -> None:
        # plain text, without autoescape: the page escapes it
        environment = make_environment(package, "words")
        environment.filters |= {"form": format, "each": _each}
        self._texts = vars(environment.get_template(f"{template}.txt").make_module(values))

    def __getitem__(self, name: str) -> str:
        """Return a text as one line."""
        return " ".join(str(self._texts[name]).split())

    def section(self, name: str, **parts: Any) -> Section:
        """Return the section with the title and the text of this template."""
        return Section(name, self["title"], self.paragraphs("text"), **parts)

    def table(self, name: str, head: Sequence[str], rows: Sequence[Any], **options: Any) -> Table:
        """Return a table titled ``name_title`` with the note ``name_note`` of this template."""
        title, note = self[f"{name}_title"], self[f"{name}_note"]
        return Table(title, head, rows, note, name, **options)

    def paragraphs(self, name: str) -> tuple[str | Finding, ...]:
        """Return the paragraphs of a text."""
        found: list[str | Finding] = []
        for paragraph in re.split(r"\n\s*\n", str(self._texts[name]).strip()):
            words, _, answer = " ".join(paragraph.split()).partition(" => ")
            found.append(Finding(words, answer) if answer else words)
        return tuple(found)


def _each(values: Iterable[Any], form: str) -> str:
    return "/".join(format(value, form) for value in values)
