"""Configuration of the documentation: Sphinx with MyST, in the theme of PyData.

`make docs` builds it. Nothing is fetched: formulas are set by a MathJax that comes with
sphinx-mathjax-offline, and no page of another project is looked up.
"""

from importlib.metadata import version as installed

project = "geostat"
author = "geostat contributors"
release = version = installed("attention-geostat")
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx-mathjax-offline",
]
exclude_patterns = ["_build", "README.md", "scripts/README.md", "notebooks/README.md"]

myst_enable_extensions = ["dollarmath", "deflist", "attrs_inline"]
myst_dmath_double_inline = True
myst_heading_anchors = 3
smartquotes_action = "D"  # dashes alone; quotation marks stay those of Python

add_module_names = False
default_role = "code"  # docstrings have single backticks
autodoc_typehints = "none"  # the docstrings name shapes and units; signatures stay short
autodoc_member_order = "bysource"
napoleon_numpy_docstring = False

html_theme = "pydata_sphinx_theme"
html_title = "geostat"
html_static_path = ["_static"]
html_css_files = ["geostat.css"]
html_context = {"default_mode": "auto"}
html_theme_options = {
    "show_prev_next": True,
    "navigation_with_keys": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": [],
    "footer_end": ["theme-version"],
}
html_sidebars = {"index": []}
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False
