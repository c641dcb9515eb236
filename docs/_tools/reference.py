"""Sphinx extension: the API reference, made of the table of public names and of their docstrings."""

from types import ModuleType
from typing import Any

from docstrings import escape, summary
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from names import names_of, thing_of
from sphinx.ext.autodoc.mock import mock


def row(name: str) -> str:
    """A row of the table on top of a page: the name as a link, and its first sentence."""
    return f"   * - :py:obj:`{name.removeprefix('hardmax.')} <{name}>`\n     - {summary(thing_of(name))}"


def entry(name: str) -> str:
    """The directive that documents a name in full."""
    thing = thing_of(name)
    if isinstance(thing, ModuleType):
        return f".. automodule:: {name}\n   :members:\n"
    if isinstance(thing, type):
        return f".. autoclass:: {name}\n   :members:\n"
    return f".. autofunction:: {name}\n"


class PublicNames(Directive):
    """``.. public-names:: PLACE ...``: a table of the public names of packages, then each in full."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Parse what is generated."""
        names = [name for place in self.arguments[0].split() for name in names_of(place)]
        with mock(self.state.document.settings.env.config.autodoc_mock_imports):
            text = [".. list-table::", "   :widths: 1 2", "", *map(row, names), "", *map(entry, names)]
        holder = nodes.container()
        lines = StringList("\n".join(text).splitlines(), source="table of public names")
        self.state.nested_parse(lines, 0, holder)
        return holder.children


def setup(app: Any) -> dict[str, bool]:
    """Tell Sphinx about the directive and about our docstrings."""

    def docstring(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
        lines[:] = escape(lines)

    app.add_directive("public-names", PublicNames)
    app.connect("autodoc-process-docstring", docstring)
    return {"parallel_read_safe": True}
