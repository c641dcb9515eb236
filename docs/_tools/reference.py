"""Sphinx extension: the API reference, a page per public name, made of their docstrings.

A function whose docstring has no section Returns gets one from its annotation. "See also" lists what a
function returns, the functions that return a class, and the guides that use a name.
"""

import functools
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

from docstrings import escape, summary
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from names import homes, names_of, thing_of
from sphinx.ext.autodoc.mock import mock

DOCS = Path(__file__).parents[1]
FOLDER = DOCS / "reference" / "api" / "objects"
GUIDES = ("how-to", "explanation", "getting-started")


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
    text = f"{title}\n{'=' * len(title)}\n\n.. auto{kind}:: {name}\n{options}"
    links = [f":py:obj:`{other.replace('hardmax', 'hm', 1)} <{other}>`" for other in related(name)]
    links += [f":doc:`{heading} </{guide}>`" for guide, heading in guides().get(name, ())]
    heading = "Related" if "See also:" in (inspect.getdoc(thing) or "") else "See also"
    return f"{text}\n.. rubric:: {heading}\n\n{', '.join(links)}\n" if links else text


def annotated(thing: Any) -> str:
    """Return the annotation of what a function returns, as text."""
    try:
        found = inspect.signature(thing).return_annotation
    except (TypeError, ValueError):
        return ""
    if found is inspect.Signature.empty or isinstance(thing, type):
        return ""
    return found if isinstance(found, str) else inspect.formatannotation(found)


@functools.cache
def classes() -> dict[str, str]:
    """Return the public classes by their last name."""
    return {name.rpartition(".")[2]: name for name in homes() if isinstance(thing_of(name), type)}


@functools.cache
def returned() -> dict[str, list[str]]:
    """Return the public functions by the public classes that they return."""
    found: dict[str, list[str]] = {}
    for name in homes():
        for word in sorted(set(re.findall(r"\w+", annotated(thing_of(name))))):
            if word in classes():
                found.setdefault(classes()[word], []).append(name)
    return found


def related(name: str) -> list[str]:
    """Return what a function returns and its other makers, the makers of a class, or neighbors."""
    if name in returned():
        return returned()[name][:6]
    results = [result for result, makers in returned().items() if name in makers]
    others = [other for result in results for other in returned()[result] if other != name]
    if not results and name not in guides():  # the neighbors in its package
        package = name.rpartition(".")[0]
        others = [other for other in homes() if other != name and other.rpartition(".")[0] == package]
    return list(dict.fromkeys(results + others))[:6]


@functools.cache
def guides() -> dict[str, list[tuple[str, str]]]:
    """Return the guides that use each public name, as page and heading, at most three."""
    found: dict[str, list[tuple[str, str]]] = {}
    for folder in GUIDES:
        for path in sorted((DOCS / folder).glob("*.md")):
            text = path.read_text(encoding="utf-8")
            heading = text.partition("\n")[0].strip("# `")
            if path.stem == "faq":
                continue
            for used in sorted(set(re.findall(r"\bhm((?:\.\w+)+)", text))):
                name = f"hardmax{used}"
                if name in homes():
                    found.setdefault(name, []).append((f"{folder}/{path.stem}", heading))
    return {name: pages[:3] for name, pages in found.items()}


def with_returns(thing: Any, lines: list[str]) -> list[str]:
    """Return the lines of a docstring with a section Returns, made from the annotation if it has none.

    >>> import hardmax as hm
    >>> with_returns(hm.flow, ["Integrate.", "", ">>> 1", "1"])[:4]
    ['Integrate.', '', 'Returns:', '    `hm.Run`']
    """
    text = annotated(thing)
    if not text or text == "None" or any(line.startswith("Returns:") for line in lines):
        return lines
    named = [word for word in re.findall(r"\w+", text) if word in classes()]
    if len(named) == 1:
        text = f"`{classes()[named[0]].replace('hardmax', 'hm', 1)}`" if text == named[0] else f"``{text}``"
    else:
        text = f"``{text}``"
    at = next((k for k, line in enumerate(lines) if line.startswith(">>>")), len(lines))
    before = lines[:at] if at and not lines[at - 1].strip() else [*lines[:at], ""]
    return [*before, "Returns:", f"    {text}", "", *lines[at:]]


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
        lines[:] = escape(with_returns(thing, lines) if what == "function" else lines)

    app.add_directive("public-names", PublicNames)
    app.connect("builder-inited", write_pages)
    app.connect("autodoc-process-docstring", docstring)
    return {"parallel_read_safe": True}
