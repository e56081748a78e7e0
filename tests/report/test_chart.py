import io
import sys

import matplotlib as mpl
import numpy as np
import pytest
from PIL import Image

from logsuper.report import chart


def paint(axes):
    axes[0, 0].plot([0, 1], [0, 1], label="line")


def test_the_same_chart_gives_the_same_bytes_whatever_the_users_settings():
    png = chart.draw(paint, (3.0, 2.0), (1, 2), sharey=True)
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "red"}):
        assert chart.draw(paint, (3.0, 2.0), (1, 2), sharey=True) == png
    with Image.open(io.BytesIO(png)) as image:
        assert image.size == (660, 440)
        assert (np.asarray(image.convert("RGB")) != 255).any(axis=2).mean() > 0.01


def test_without_matplotlib_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'logsuper\[plot\]'"):
        chart.draw(paint, (3.0, 2.0))
