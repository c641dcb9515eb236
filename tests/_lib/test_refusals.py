"""One dialect of refusals: NAME must be WHAT, got X; WHAT TO DO."""

import ast
import re
from pathlib import Path

import hardmax

SOURCE = Path(hardmax.__file__).parent
# What names its violations as the keys of a table, and shares nothing with the rest.
APART = {"margin/certify.py"}


def refusals():
    """Yield (file:line, text) of every ValueError or TypeError, with {} for what it tells."""
    for file in sorted(SOURCE.rglob("*.py")):
        place = file.relative_to(SOURCE).as_posix()
        for node in ast.walk(ast.parse(file.read_text())):
            call = node.exc if isinstance(node, ast.Raise) else None
            if place in APART or not isinstance(call, ast.Call) or not call.args:
                continue
            if isinstance(call.func, ast.Name) and call.func.id in ("ValueError", "TypeError"):
                yield f"{place}:{node.lineno}", said(call.args[0])


def said(node: ast.expr) -> str:
    """The text of a literal or of an f-string."""
    if isinstance(node, ast.JoinedStr):
        return "".join(said(each) for each in node.values)
    if isinstance(node, ast.BinOp):
        return said(node.left) + said(node.right)
    return str(node.value) if isinstance(node, ast.Constant) else "{}"


def test_one_dialect():
    every = list(refusals())
    assert len(every) > 400
    other = re.compile(r"\b(expected|should be|needs to be|has to be|[Ii]nvalid|[Ii]llegal)\b")
    assert [(where, text) for where, text in every if other.search(text)] == []
