"""Sphinx extension: the API reference, a page per public name, made of their docstrings."""

from pathlib import Path
from types import ModuleType
from typing import Any

from docstrings import escape, summary
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from names import homes, names_of, thing_of
from sphinx.ext.autodoc.mock import mock

FOLDER = Path(__file__).parents[1] / "reference" / "api" / "objects"


def row(name: str) -> str:
    """Return a row of the table of a package: the name as a link, and its first sentence."""
    return f"   * - :py:obj:`{name.replace('hardmax', 'hm', 1)} <{name}>`\n     - {summary(thing_of(name))}"


def page(name: str) -> str:
    """Return the page of a public name."""
    thing, title = thing_of(name), name.replace("hardmax", "hm", 1)
    kind, options = "function", ""
    if isinstance(thing, ModuleType):
        kind, options = "module", "   :members:\n"
    elif isinstance(thing, type):
        kind, options = "class", "   :members:\n"
    return f"{title}\n{'=' * len(title)}\n\n.. auto{kind}:: {name}\n{options}"


class PublicNames(Directive):
    """``.. public-names:: PLACE ...``: a table of the public names of packages, with their pages."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Parse what is generated."""
        names = [name for place in self.arguments[0].split() for name in names_of(place)]
        with mock(self.state.document.settings.env.config.autodoc_mock_imports):
            text = [".. list-table::", "   :widths: 1 2", "", *map(row, names), ""]
        text += [".. toctree::", "   :hidden:", "", *(f"   objects/{name}" for name in names), ""]
        holder = nodes.container()
        lines = StringList("\n".join(text).splitlines(), source="table of public names")
        self.state.nested_parse(lines, 0, holder)
        return holder.children


def write_pages(app: Any) -> None:
    """Write the pages of all public names; those of names that are gone are removed."""
    FOLDER.mkdir(exist_ok=True)
    with mock(app.config.autodoc_mock_imports):
        texts = {f"{name}.rst": page(name) for name in homes()}
    for old in FOLDER.glob("*.rst"):
        if old.name not in texts:
            old.unlink()
    for file, text in texts.items():
        target = FOLDER / file
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Register the directive, the pages and the form of our docstrings."""

    def docstring(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
        lines[:] = escape(lines)

    app.add_directive("public-names", PublicNames)
    app.connect("builder-inited", write_pages)
    app.connect("autodoc-process-docstring", docstring)
    return {"parallel_read_safe": True}
