"""Charts, drawn with matplotlib (an optional dependency)."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

_STYLE = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
_DPI = 220


def require() -> Any:
    """Return matplotlib; if it is missing, raise an error that says how to install it."""
    try:
        import matplotlib
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "drawing needs matplotlib: pip install 'logsuper[plot]'", name=error.name
        ) from error
    return matplotlib


def draw(
    paint: Callable[[Any], None],
    size: tuple[float, float],
    shape: tuple[int, int] = (1, 1),
    *,
    legend: int = 4,
    **options: Any,
) -> bytes:
    """Return a chart as a PNG, independent of the user's matplotlib settings.

    Parameters
    ----------
    paint : callable
        Called with the array of axes; the legend describes the first panel.
    size : pair of float
        Width and height in inches.
    shape : pair of int
        Rows and columns of panels.
    legend : int
        Number of columns of the legend.
    **options
        Options of `matplotlib.figure.Figure.subplots`.

    Returns
    -------
    bytes
        The same chart gives the same bytes.
    """
    matplotlib, buffer = require(), io.BytesIO()
    from matplotlib.figure import Figure  # unlike pyplot, opens no window

    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **_STYLE}):
        figure = Figure(figsize=size, dpi=_DPI, layout="constrained")
        axes = figure.subplots(*shape, squeeze=False, **options)
        paint(axes)
        for axis in axes.flat:
            axis.grid(color="0.92", linewidth=0.6)
        handles, labels = axes.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=legend, frameon=False)
        figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()
