"""Pages that lie outside docs/, and links to them, which work in the repository and on the site.

A page of the site that is nothing but an ``{include}`` of a file of the repository becomes that
file, with its links rewritten; links to such files lead to their pages.
"""

import os
import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util.matching import patfilter

# Files of the repository, and the pages that show them.
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "development/contributing.md",
    "CHANGELOG.md": "development/changelog.md",
    "SECURITY.md": "development/security.md",
    "CODE_OF_CONDUCT.md": "development/code_of_conduct.md",
    "docs/index.md": "index.md",
    "docs": "index.md",
    "examples": "gallery/index.rst",
}
_FINDINGS = {"The paper says:": "paper", "Found here:": "found"}
_INCLUDE = re.compile(r"\A```\{include\} (\S+)\n```\s*\Z")
# A line of a toctree such as gallery/inde[x]: left out without a warning where there is no page.
_GLOB = re.compile(r"^[\w./]*\[\w\]\n", flags=re.MULTILINE)
_LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")


def read_source(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace an include by its file, and rewrite links to files of the repository."""
    docs = Path(app.srcdir)
    root = docs.parent
    path = Path(app.env.doc2path(docname))
    if path.suffix != ".md":
        return
    here = path.parent  # links are relative to it
    include = _INCLUDE.match(source[0])
    if include:
        file = (here / include[1]).resolve()
        app.env.note_dependency(str(file))
        source[0] = file.read_text(encoding="utf-8")
        here = file.parent

    def rewrite(match: re.Match[str]) -> str:
        start, target, anchor, end = match[1], match[2], match[3] or "", match[4]
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        file = Path(os.path.normpath(here / target))
        if not file.is_relative_to(root):
            return match[0]
        name = file.relative_to(root).as_posix()
        page = PAGES.get(name)
        if page and name == "README.md":
            anchor = ""
        new = docs / page if page else file
        if page and not page.endswith(".md") and not (docs / page).exists():
            new = docs / "index.md"
        relative = Path(os.path.relpath(new, path.parent)).as_posix()
        return f"{start}{relative}{anchor}{end}"

    def keep(match: re.Match[str]) -> str:
        pattern = os.path.normpath(os.path.join(os.path.dirname(docname), match[0].strip()))
        return match[0] if patfilter(app.env.found_docs - {docname}, pattern) else ""

    source[0] = _LINK.sub(rewrite, source[0])
    source[0] = _GLOB.sub(keep, source[0])


class MarkFindings(SphinxTransform):
    """Set "The paper says" and "Found here" of a report apart, by classes for the style sheet."""

    default_priority = 400

    def apply(self, **options: object) -> None:
        """Mark paragraphs, and quotations, by the bold words that they begin with."""
        for paragraph in self.document.findall(nodes.paragraph):
            first = next((node for node in paragraph.children if node.astext()), None)
            word = _FINDINGS.get(first.astext()) if isinstance(first, nodes.strong) else None
            if word:
                quoted = isinstance(paragraph.parent, nodes.block_quote)
                (paragraph.parent if quoted else paragraph)["classes"].append(word)


def setup(app: Sphinx) -> dict[str, object]:
    """Look at each source as it is read, and at the reports."""
    app.connect("source-read", read_source)
    app.add_transform(MarkFindings)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
