"""Check the built documentation offline: `python docs/check_links.py build/docs`.

Every link, picture, script and style sheet that a page names must be in the folder, with its
anchor; and no page may load anything from the internet. Links to other sites are only counted.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The anchors and links of a page, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[tuple[str, bool]] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Note the anchors and links of a tag."""
        values = {name: value for name, value in attributes if value}
        self.anchors.update(values[name] for name in ("id", "name") if name in values)
        if "href" in values:
            loads = tag == "link" and "stylesheet" in values.get("rel", "")
            self.links.append((values["href"], loads))
        if "src" in values:
            self.links.append((values["src"], True))


@cache
def read(path: Path) -> Page:
    """Return a page, read once."""
    return Page(path)


def faults(folder: Path, path: Path) -> Iterator[str]:
    """Yield what is wrong with the links of a page."""
    for link, loads in read(path).links:
        parts = urlsplit(link)
        if parts.scheme == "data":
            continue
        if parts.scheme or parts.netloc:
            if loads:
                yield f"loads {link} from the internet"
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if target.is_dir():
            target /= "index.html"
        if not target.is_relative_to(folder) or not target.is_file():
            yield f"{link} leads nowhere"
        elif parts.fragment and target.suffix == ".html":
            anchor = unquote(parts.fragment)
            if anchor not in read(target).anchors and anchor != "top":
                yield f"{link}: no such anchor"


def main(folder: Path) -> int:
    """Print all faults; return 1 if there are any."""
    folder = folder.resolve()
    # a template of the theme lies among its styles
    pages = [page for page in sorted(folder.rglob("*.html")) if "_static" not in page.parts]
    found = [
        f"{page.relative_to(folder)}: {fault}" for page in pages for fault in faults(folder, page)
    ]
    for line in dict.fromkeys(found):
        print(line)
    links = [link for page in pages for link, _ in read(page).links]
    outside = sum(bool(urlsplit(link).netloc) for link in links)
    inside = len(links) - outside
    print(f"{len(pages)} pages, {inside} links, {outside} more to other sites; {len(found)} faults")
    return int(bool(found) or not pages)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
