"""One dialect of refusals: NAME must be WHAT, got X; WHAT TO DO."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import hardmax

POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD
SOURCE = Path(hardmax.__file__).parent
# What names its violations as the keys of a table, and shares nothing with the rest.
APART = {"margin/certificates.py"}


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


def verbs_of_a_problem():
    """The verbs at the top level whose first argument is a problem, with what else they ask for."""
    for name in sorted(name for name in hardmax.__all__ if callable(getattr(hardmax, name))):
        verb = getattr(hardmax, name)
        asked = [*inspect.signature(verb).parameters.values()] if inspect.isfunction(verb) else []
        # the functions of commands take the name of a file, too
        takes_file = bool(asked) and (name == "play" or "str" in str(asked[0].annotation).split(" | "))
        if asked and asked[0].name == "problem" and not takes_file:
            rest = [None for each in asked[1:] if each.default is each.empty and each.kind is POSITIONAL]
            yield pytest.param(verb, rest, id=name)


@pytest.mark.parametrize("verb, rest", [*verbs_of_a_problem()])
def test_what_is_no_problem_is_refused_in_words(verb, rest):
    many = " or a list of hardmax.Problem or a list of hardmax.Constraints"
    several = many if verb is hardmax.max_margin else ""
    with pytest.raises(
        ValueError,
        match=rf"problem must be a hardmax\.Problem( or hardmax\.Constraints)?{re.escape(several)}, got str;",
    ):
        next(iter(verb("three-inputs.json", *rest)))


def test_one_problem_is_no_list_and_no_workers_are_no_number():
    problem = hardmax.data.example("B-FIG-8")
    step = hardmax.optim.Normalized(0.1)
    for call in (lambda problems, **more: hardmax.train(problems, step, steps=1, **more), hardmax.max_margin):
        with pytest.raises(
            ValueError, match=r"must be .* a list of hardmax\.Problem or .*, got list; make one"
        ):
            call([problem, "three-inputs.json"])
        with pytest.raises(
            ValueError, match=r"workers must be None .* one problem.*; give a list of problems"
        ):
            call(problem, workers=1)
        with pytest.raises(ValueError, match="workers must be an integer of at least 1, got 0"):
            call([problem], workers=0)
    for train in (hardmax.nexttoken.training.train, hardmax.nexttoken.training.train_by_flow):
        with pytest.raises(ValueError, match=r"samples must be Samples, got str; make them with"):
            train("svop.txt", **({} if train is hardmax.nexttoken.training.train else {"until": 1.0}))
