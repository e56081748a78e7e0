"""Configuration of the documentation; `make docs` builds it, with warnings as errors."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE / "_extensions"))

import logsuper  # noqa: E402

project = "logsuper"
author = "The logsuper developers"
copyright = author
release = version = logsuper.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "api",
    "mathml",
    "repository",
]
exclude_patterns = ["_build", "gallery/**/*.md5", "gallery/sg_execution_times.rst"]
smartquotes = False
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

# ---- references --------------------------------------------------------------------------------

# Every role must resolve. `name` in docstrings is a link where it is a public name, else code.
nitpicky = True
default_role = "py:obj"
nitpick_ignore_regex = [("py:obj", ".*")]
# No links to the documentation of Python, NumPy or scikit-learn: builds need no internet.

# ---- docstrings --------------------------------------------------------------------------------

autodoc_typehints = "none"
autodoc_mock_imports = ["torch"]
autodoc_member_order = "bysource"
autosummary_generate = False
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
add_module_names = False
toc_object_entries_show_parents = "hide"
python_use_unqualified_type_names = True

# ---- Markdown ----------------------------------------------------------------------------------

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# ---- gallery -----------------------------------------------------------------------------------

_EXAMPLES = ROOT / "examples"
if any(_EXAMPLES.rglob("plot_*.py")):
    extensions.append("sphinx_gallery.gen_gallery")
    sphinx_gallery_conf = {
        "examples_dirs": str(_EXAMPLES),
        "gallery_dirs": "gallery",
        "filename_pattern": r"plot_",
        "ignore_pattern": r"^(?!.*plot_).*\.py$",
        "subsection_order": [
            f"../examples/{name}"
            for name in ("cleaning", "segmenting", "learning", "inference", "functions")
        ]
        + ["*"],
        "within_subsection_order": "FileNameSortKey",
        "doc_module": ("logsuper",),
        "backreferences_dir": "gallery/backreferences",
        "show_memory": False,
        "show_signature": False,
        "download_all_examples": False,
        "abort_on_example_error": False,
        "min_reported_time": 1e9,
        "write_computation_times": False,
        "default_thumb_file": str(HERE / "images" / "demo.png"),
    }

# ---- HTML --------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = "logsuper"
html_static_path = ["_static"]
html_css_files = ["logsuper.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "logsuper"},
    "navigation_with_keys": False,
    "show_prev_next": False,
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
html_sidebars = {"index": []}
