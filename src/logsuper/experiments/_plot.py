"""Drawing is optional: what every picture of the experiments starts from."""

from __future__ import annotations

import io
from typing import Any

_STYLE = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
_DPI = 220


def require() -> Any:
    """Return matplotlib, or say how to get it."""
    try:
        import matplotlib
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "drawing needs matplotlib: pip install 'logsuper[plot]'", name=error.name
        ) from error
    return matplotlib


def style() -> Any:
    """Return a context in which pictures look the same whatever the user's settings are."""
    matplotlib = require()
    return matplotlib.rc_context({**matplotlib.rcParamsDefault, **_STYLE})


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure of a size in inches that no window belongs to."""
    require()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def as_png(figure: Any) -> bytes:
    """Return a figure as the bytes of a PNG; the same picture gives the same bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()
