"""Write formulas as MathML, which browsers render themselves: no script and no internet.

Large operators and brackets need a font with mathematics, which not every system has: the glyphs
that formulas may need are taken from STIX Two Math (Open Font License), which ziamath brings.
"""

import itertools
import re
from importlib.resources import files
from pathlib import Path

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from fontTools import subset
from sphinx.application import Sphinx
from sphinx.util import logging

# Latin, Greek, accents, punctuation, letterlike symbols, arrows, operators, brackets; letters of
# mathematics: bold, italic, script, double-struck, Greek.
_RANGES = [
    (0x20, 0x17F), (0x2C6, 0x2DD), (0x300, 0x310), (0x370, 0x400), (0x2010, 0x2040),
    (0x2100, 0x2150), (0x2190, 0x2300), (0x2308, 0x230C), (0x27E8, 0x27EA), (0x2A7D, 0x2A7F),
    (0x1D400, 0x1D468), (0x1D49C, 0x1D504), (0x1D538, 0x1D56C), (0x1D6A8, 0x1D756),
]  # fmt: skip

_log = logging.getLogger(__name__)


# What the converter knows by another name, or sets wrongly without braces.
_TEX = [
    (r"\\dots(?![a-z])", r"\\ldots"),
    (r"\\Big(?=[(\[])", r"\\Bigl"),
    (r"\\Big(?=[)\]/|])", r"\\Bigr"),
    (r"(\\(?:hat|tilde|bar|dot))\s*(\{[^{}]*\}|\\[a-zA-Z]+|[a-zA-Z])", r"{\1{\2}{}}"),
    (r"\\\{([^{}]*)\\\}(?=\^)", r"{\\{\1\\}}"),
]
# Brackets that are not to grow, and a space after log and its kind.
_MATHML = [
    ("<mo>([{}⟨⟩])</mo>", r'<mo stretchy="false">\1</mo>'),
    (
        r"(<mo>&ApplyFunction;</mo>\s*)(?=<(?:mi|msub|msup|mover|mfrac)>)",
        r'\1<mspace width="0.17em"/>',
    ),
]
_BAR = '<mo stretchy="false">|</mo>'


def _convert(self, node: nodes.Element, block: bool) -> str:
    """Return the MathML of a formula; what cannot be converted is a warning, and shown as TeX."""
    text = code = node.astext()
    for pattern, replacement in _TEX:
        code = re.sub(pattern, replacement, code)
    if block and r"\\" in text and r"\begin" not in text:
        code = rf"\begin{{align}}{code}\end{{align}}"
    try:
        found = latex2mathml.tex2mathml(code, as_block=block)
    except (MathError, ValueError, IndexError, KeyError) as error:
        _log.warning("formula cannot be converted (%s): %s", error, text, location=node)
        return f"<code>{self.encode(text)}</code>"
    for pattern, replacement in _MATHML:
        found = re.sub(pattern, replacement, found)
    if found.count(_BAR) % 2 == 0:  # pairs of bars: an opening one, a closing one
        forms = itertools.cycle(["prefix", "postfix"])
        found = re.sub(
            re.escape(_BAR), lambda _: _BAR.replace(" ", f' form="{next(forms)}" '), found
        )
    return found


def _inline(self, node: nodes.math) -> None:
    self.body.append(_convert(self, node, block=False))
    raise nodes.SkipNode


def _block(self, node: nodes.math_block) -> None:
    identifier = f' id="{node["ids"][0]}"' if node.get("ids") else ""
    self.body.append(f'<div class="math"{identifier}>{_convert(self, node, block=True)}</div>\n')
    raise nodes.SkipNode


def _write_font(app: Sphinx) -> None:
    """Write the font that logsuper.css names."""
    options = subset.Options(flavor="woff", layout_features=["*"])
    font = subset.load_font(str(files("ziamath") / "fonts" / "STIXTwoMath-Regular.ttf"), options)
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=[code for first, end in _RANGES for code in range(first, end)])
    subsetter.subset(font)
    folder = Path(app.outdir) / "_static"
    folder.mkdir(parents=True, exist_ok=True)
    subset.save_font(font, str(folder / "mathematics.woff"), options)


def setup(app: Sphinx) -> dict[str, object]:
    """Register the renderer, for `html_math_renderer = "mathml"`."""
    renderers = {"inline_renderers": (_inline, None), "block_renderers": (_block, None)}
    app.add_html_math_renderer("mathml", **renderers)
    app.connect("builder-inited", _write_font)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
