"""Sphinx extension: formulas as MathML, and links from names, commands and ids to where they are explained.

The site needs no network, so formulas are converted by docutils when it is built. `hm.flow(problem)`
in a page links to the API, `hardmax solve FILE` to the page of the command, and B-THM-3 to its row.
"""

from __future__ import annotations

import re
from html import escape
from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml

from hardmax.app.cli.commands import COMMANDS
from hardmax.papers.figures.figure import recipes
from hardmax.papers.registry import ERRATA, places

NAME = re.compile(r"hm(?:\.\w+)+")
COMMAND = re.compile(r"hardmax ((?:ntp |text )?[a-z]+)")
ID = re.compile(r"\b[ABCD]-[A-Z]{2,4}-\w+\b")
KEPT = (nodes.literal, nodes.literal_block, nodes.reference, nodes.title, nodes.raw, nodes.math)


def target_of(id: str) -> tuple[str, str] | None:
    """Return page and anchor that explain an id, or None if it is not one of ours.

    >>> target_of("B-THM-3"), target_of("B-ERR-01")
    (('reference/statements', 'b-thm-3'), ('research/errata', 'b-err-01'))
    >>> target_of("C-FIG-1"), target_of("B-DEF-1")
    (('research/gallery', 'c-fig-1'), None)
    """
    if id in places("statements"):
        return "reference/statements", id.lower()
    if id in ERRATA:
        return "research/errata", id.lower()
    if id in recipes():
        return "research/gallery", id.lower()
    return None


def _relative(app: Any, page: str, to: str, anchor: str = "") -> str:
    uri = app.builder.get_relative_uri(page, to)
    return f"{uri}#{anchor}" if anchor else uri


def _code_target(app: Any, page: str, text: str) -> str | None:
    """Return the address of what a piece of code names."""
    if name := NAME.match(text):
        objects = app.env.domains["py"].objects
        dotted = name[0].replace("hm", "hardmax", 1)
        while dotted != "hardmax":
            if dotted in objects:
                return _relative(app, page, objects[dotted].docname, objects[dotted].node_id)
            dotted = dotted.rpartition(".")[0]
    if (command := COMMAND.match(text)) and command[1] in COMMANDS:
        return _relative(app, page, f"reference/cli/{command[1].replace(' ', '-')}")
    if ID.fullmatch(text) and (target := target_of(text)):
        return _relative(app, page, *target)
    return None


def _link_code(app: Any, tree: nodes.document, page: str) -> None:
    for node in list(tree.findall(nodes.literal)):
        if isinstance(node.parent, nodes.reference | nodes.title) or "xref" in node.get("classes", ()):
            continue
        if address := _code_target(app, page, node.astext()):
            node.replace_self(nodes.reference("", "", node.deepcopy(), internal=True, refuri=address))


def _link_ids(app: Any, tree: nodes.document, page: str) -> None:
    for node in list(tree.findall(nodes.Text)):
        above = node.parent
        while above is not None and not isinstance(above, KEPT):
            above = above.parent
        if above is not None:
            continue
        text, parts, at = str(node), [], 0
        for found in ID.finditer(text):
            target = target_of(found[0])
            if target and target[0] != page:
                address = _relative(app, page, *target)
                link = nodes.reference("", found[0], internal=True, refuri=address)
                parts += [nodes.Text(text[at : found.start()]), link]
                at = found.end()
        if parts:
            node.parent.replace(node, [*parts, nodes.Text(text[at:])])


def _resolved(app: Any, tree: nodes.document, page: str) -> None:
    if app.builder.format == "html":
        _link_code(app, tree, page)
        _link_ids(app, tree, page)


def _inline(writer: Any, node: nodes.Node) -> None:
    writer.body.append(_mathml(node.astext(), block=False))
    raise nodes.SkipNode


def _display(writer: Any, node: nodes.Node) -> None:
    writer.body.append(f'<div class="math">{_mathml(node.astext(), block=True)}</div>\n')
    raise nodes.SkipNode


def _mathml(formula: str, block: bool) -> str:
    """Return a formula as MathML, which browsers draw by themselves."""
    try:
        return re.sub(r"\s*\n\s*", "", latex2mathml.tex2mathml(formula, as_block=block))
    except Exception as error:
        raise ValueError(f"cannot convert the formula {escape(formula)}: {error}") from error


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer of formulas and the links."""
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    app.connect("doctree-resolved", _resolved)
    return {"parallel_read_safe": True}
