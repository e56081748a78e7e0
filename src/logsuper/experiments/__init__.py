"""The experiments of the paper, each a module with ``run``, and the report of all of them."""

from logsuper.experiments import _html as html
from logsuper.experiments import _plot as plot
from logsuper.experiments import _sheet as sheet
from logsuper.experiments._pages import numeric
from logsuper.experiments._section import Grid, Picture, Section
from logsuper.experiments._setting import Setting, load_setting

__all__ = [
    "Grid",
    "Picture",
    "Section",
    "Setting",
    "html",
    "load_setting",
    "numeric",
    "plot",
    "sheet",
]
