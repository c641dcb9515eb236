"""How Sphinx makes the documentation site: `make docs`. The site needs no network and works from file://."""

import sys
from importlib.util import find_spec
from pathlib import Path

from hardmax import __version__

sys.path.insert(0, str(Path(__file__).parent / "_tools"))

project = "hardmax"
author = "the hardmax authors"
copyright = "the hardmax authors"
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "links",
    "root_files",
    "reference",
    "scenes",
    "tutorials",
]
exclude_patterns = ["_tools"]

# Links of the Markdown name headings as GitHub and other hosts do; formulas are between dollars.
myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]
html_math_renderer = "mathml"
# Anchors of rows are written as HTML, which MyST does not know; check_site.py follows every link.
suppress_warnings = ["myst.xref_missing"]
# Examples end with an empty line, which doctest needs and readers do not.
highlight_options = {"python": {"stripnl": True}}

# A page per public name; a signature names types as the source does.
autodoc_member_order = "bysource"
# The site is built without PyTorch, unless it is there.
autodoc_mock_imports = [] if find_spec("torch") else ["torch"]
autodoc_typehints_format = "short"
autodoc_type_aliases = {"Bools": "ndarray", "Floats": "ndarray", "Ints": "ndarray"}
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries_show_parents = "hide"

# Tutorials are run when the site is built; one that fails stops it.
sphinx_gallery_conf = {
    "examples_dirs": "../examples/tutorials",
    "gallery_dirs": "tutorials",
    "filename_pattern": r"\.py$",
    "ignore_pattern": r"__init__\.py" if find_spec("torch") else r"is_my_attention_accurate\.py",
    "abort_on_example_error": True,
    "within_subsection_order": "tutorials.place",
    "download_all_examples": False,
    "notebook_extensions": {".py"},  # each page offers its tutorial as a notebook; `tutorials` adds outputs
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
}

# Tutorials are read as scripts too, where the norm of p is written as it is.
rst_prolog = r""".. |p| replace:: \|p\|
"""

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_title = f"hardmax {__version__}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_search_summary = True
