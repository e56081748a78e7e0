"""A report as one page of HTML: no other file, no script, no network."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from html import escape

from logsuper.experiments._pages import Report, numeric
from logsuper.experiments._section import Grid, Picture, Section

__all__ = ["page"]

# Wide tables scroll in a box of their own, with a shade at the right while there is more, and their
# first column stays; pictures keep a light ground in the dark, as they are drawn for one.
_STYLE = """
:root { color-scheme: light dark; --ink: #1c2128; --soft: #57606a; --paper: #fff; --line: #d8dee4;
  --box: #f6f8fa; --mark: #0b5cad; --shade: #0003; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --soft: #9da7b3; --paper: #14181e;
  --line: #343b44; --box: #1d232b; --mark: #7db7ff; --shade: #000c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 62rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0.5rem 0 1rem; }
h2 { font-size: 1.3rem; margin: 2.8rem 0 0.6rem; border-top: 1px solid var(--line);
  padding-top: 1.6rem; }
h3 { font-size: 1.05rem; margin: 1.8rem 0 0.5rem; }
p { max-width: 46rem; margin: 0.6rem 0; }
a { color: var(--mark); }
nav { display: flex; flex-wrap: wrap; gap: 0.2rem 1.2rem; margin: 1.2rem 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.3rem 1rem; margin: 1.2rem 0;
  padding: 0.8rem 1rem; background: var(--box); border-radius: 6px; font-size: 0.875rem; }
dt { color: var(--soft); }
dd { margin: 0; min-width: 0; overflow-wrap: anywhere; }
code { font: 0.9em ui-monospace, monospace; }
.wide { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px;
  background: linear-gradient(to left, var(--paper) 1rem, transparent) right / 2.5rem no-repeat
  local, linear-gradient(to left, var(--shade), transparent) right / 1rem no-repeat scroll; }
table { border-collapse: collapse; width: 100%; font-size: 0.875rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: 0.35rem 0.7rem; text-align: left; white-space: nowrap; }
th { background: var(--box); font-weight: 600; vertical-align: bottom; white-space: normal;
  min-width: 4.5rem; }
td { border-top: 1px solid var(--line); }
th:first-child, td:first-child { position: sticky; left: 0; background: var(--box);
  white-space: normal; min-width: 5rem; max-width: 14rem; }
.number { text-align: right; }
.note, figcaption { color: var(--soft); font-size: 0.875rem; }
.best { font-weight: 700; color: var(--mark); }
figure { margin: 1.4rem 0; }
img { display: block; max-width: 100%; height: auto; background: #fff; border-radius: 6px; }
figcaption { max-width: 46rem; margin-top: 0.4rem; }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: 0.5rem; } h1 { font-size: 1.4rem; } th:first-child, td:first-child {
  max-width: 9.5rem; } }
@media print { .wide { overflow: visible; } figure, table { break-inside: avoid; } }
"""


def page(report: Report) -> str:
    """Return the page."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    title = escape(report.title)
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    # whatever gets into a page, a browser will load nothing from elsewhere for it
    yield (
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">"
    )
    yield '<link rel="icon" href="data:,">'
    yield f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>"
    yield f"<h1>{title}</h1>\n<p>{escape(report.lead)}</p>"
    if len(report.sections) > 1:
        links = (f'<a href="#{escape(s.name)}">{escape(s.title)}</a>' for s in report.sections)
        yield f'<nav aria-label="Contents">{" ".join(links)}</nav>'
    yield "<dl>"
    for name, value in report.facts:
        shown = f"<code>{escape(value)}</code>" if name == "command" else escape(value)
        yield f"<dt>{escape(name)}</dt><dd>{shown}</dd>"
    yield "</dl>"
    for section in report.sections:
        yield from _section(section)
    yield "</main>\n</body>\n</html>"


def _section(section: Section) -> Iterator[str]:
    yield f'<section id="{escape(section.name)}">\n<h2>{escape(section.title)}</h2>'
    for paragraph in section.text:
        yield f"<p>{escape(paragraph)}</p>"
    for grid in section.grids:
        yield from _table(grid)
    for picture in section.pictures:
        yield from _figure(picture)
    yield "</section>"


def _table(grid: Grid) -> Iterator[str]:
    title, right = escape(grid.title), numeric(grid)
    yield f"<h3>{title}</h3>"
    # a box that scrolls must be reachable by keyboard, and have a name
    yield f'<div class="wide" tabindex="0" role="region" aria-label="{title}">\n<table>'
    heads = (
        f'<th scope="col"{_class(right[j] and "number")}>{escape(name)}</th>'
        for j, name in enumerate(grid.head)
    )
    yield f"<thead><tr>{''.join(heads)}</tr></thead>\n<tbody>"
    for i, row in enumerate(grid.rows):
        cells = (
            f"<td{_class(right[j] and 'number', (i, j) in grid.best and 'best')}>"
            f"{escape(cell)}</td>"
            for j, cell in enumerate(row)
        )
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody>\n</table>\n</div>"
    if grid.note:
        yield f'<p class="note">{escape(grid.note)}</p>'


def _figure(picture: Picture) -> Iterator[str]:
    data, caption = base64.b64encode(picture.png).decode(), escape(picture.caption)
    yield f'<figure>\n<img src="data:image/png;base64,{data}" alt="{caption}">'
    yield f"<figcaption>{caption}</figcaption>\n</figure>"


def _class(*names: str | bool) -> str:
    found = " ".join(name for name in names if isinstance(name, str))
    return f' class="{found}"' if found else ""
