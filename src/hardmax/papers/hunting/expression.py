"""A conjecture in one line over named measurements: ``selection == 1 given margin > 0.5``.

The text is parsed, never run: numbers, the names below, + - * / **, a few functions and one comparison.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb

from hardmax.dynamics.flow import flow
from hardmax.dynamics.measures import loss
from hardmax.dynamics.run import Run
from hardmax.margin.att_svm import max_margin
from hardmax.margin.solution import MaxMargin
from hardmax.papers.checking.check import Hypothesis, Outcome
from hardmax.papers.checking.common import longest_difference, unit_length
from hardmax.papers.checking.enclosure import PROOF, selected
from hardmax.papers.checking.proof import at_precision
from hardmax.problem import Problem
from hardmax.problem.selection import best_tokens

FAR = 1e4  # times the |p| at which logits move by one: how far the flow runs

MEASUREMENTS = {
    "margin": "max margin of the best-scoring tokens, 0 if nothing separates them",
    "selection": "share of inputs in which the flow from 0 selects a best-scoring token",
    "misalignment": "1 - cos between the flow and p_mm of what it selects",
    "deficit": "how far the flow's margin is from that of p_mm, as a share of it",
    "norm": "|p| where the flow ended, in units in which logits move by one",
    "risk": "mean loss where the flow ended",
    "n": "inputs",
    "T": "tokens of the longest input",
    "d": "dimensions",
}
OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,  # of balls; of floats math.pow, which has no complex results
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {  # of floats, of balls
    "abs": (abs, abs),
    "sqrt": (math.sqrt, lambda x: x.sqrt()),
    "log": (math.log, lambda x: x.log()),
    "exp": (math.exp, lambda x: x.exp()),
}
SIGNS: dict[type[ast.cmpop], int] = {ast.LtE: -1, ast.Lt: -1, ast.GtE: 1, ast.Gt: 1, ast.Eq: 0}
LONGEST = 500  # characters


class Measurements:
    """The measurements of one problem, each made when it is asked for; a flow is run once at most."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    @cached_property
    def best(self) -> MaxMargin:
        """p_mm of the best-scoring tokens."""
        return max_margin(self.problem, best_tokens(self.problem).tokens)

    @cached_property
    def path(self) -> Run:
        """The flow from 0."""
        return flow(self.problem, until_norm=FAR * unit_length(self.problem))

    @cached_property
    def limit(self) -> MaxMargin:
        """p_mm of what the flow selects."""
        return max_margin(self.problem, self.path.selection.tokens)

    def __getitem__(self, name: str) -> float:
        return float(getattr(self, f"_{name}")())

    def _margin(self) -> float:
        return self.best.margin if self.best.is_feasible and self.best.direction is not None else 0.0

    def _selection(self) -> float:
        good = best_tokens(self.problem).sets
        chosen = self.path.selection.sets
        return sum(set(a) <= set(b) for a, b in zip(chosen, good, strict=True)) / self.problem.n

    def _misalignment(self) -> float:
        return self.path.cosine_distance(self.limit) if self._has_limit() else math.nan

    def _deficit(self) -> float:
        return self.path.margin_gap(self.limit) if self._has_limit() else math.nan

    def _has_limit(self) -> bool:
        return self.path.selection.is_unique and self.limit.direction is not None and self.path.p_norm > 0

    def _norm(self) -> float:
        return self.path.p_norm * longest_difference(self.problem)

    def _risk(self) -> float:
        return loss(self.problem, self.path.p)

    def _n(self) -> float:
        return self.problem.n

    def _T(self) -> float:
        return int(self.problem.sizes.max())

    def _d(self) -> float:
        return self.problem.d

    def ball(self, name: str) -> Any | None:
        """An enclosure of the true measurement in balls, or None where there is none."""
        if name in ("n", "T", "d"):
            return arb(int(self[name]))
        if name == "margin" and self.best.is_feasible and self.best.direction is not None:
            exact = max_margin(self.problem, best_tokens(self.problem).tokens, exact=True).exact
            if exact is None:
                return None
            square = exact.norm_squared
            return (arb(int(square.denominator)) / int(square.numerator)).sqrt()
        if name == "margin" and self.best.status == "infeasible":
            return arb(0)
        if name == "selection" and self._is_proved():
            good = best_tokens(self.problem).sets
            hits = sum(t in b for t, b in zip(self.path.selection.tokens, good, strict=True))
            return arb(hits) / self.problem.n
        return None

    def _is_proved(self) -> bool:
        """Whether what the flow selects is proved, which `enclosure` can do for one input."""

        chosen = self.path.selection
        if not chosen.is_unique or self.path.event is not None:
            return False
        return (selected(self.problem, np.zeros(self.problem.d)),) == chosen.tokens


@dataclass(frozen=True)
class Expression:
    """A comparison, and one that must hold for it to be asked, parsed; call it with a problem.

    >>> import hardmax as hm
    >>> from hardmax.papers.hunting.expression import parse
    >>> claim = parse("margin <= 0.5 given n == 2")
    >>> found = claim(hm.data.example("B-FIG-8"))
    >>> round(found.slack, 6), found.hypotheses[0].holds
    (0.183772, True)
    """

    text: str
    claim: ast.Compare
    given: ast.Compare | None

    def __call__(self, problem: Problem) -> Outcome:
        seen = Measurements(problem)
        hypotheses: tuple[Hypothesis, ...] = ()
        if self.given is not None:
            room = _room(self.given, seen)
            met = None if math.isnan(room) else room >= 0 if _is_closed(self.given) else room > 0
            if met and room < 1e-9 and _is_measured(self.given):
                met = None  # on the edge of what floats tell
            hypotheses = (Hypothesis(ast.unparse(self.given), met, room),)
            if not met:
                return Outcome(hypotheses)
        slack = _room(self.claim, seen)
        strict = not _is_closed(self.claim)
        fails = slack < 0 or (strict and slack == 0)
        told = {name: seen[name] for name in sorted(_names(self.claim))}
        if "path" in seen.__dict__:
            told["|p| of the flow"] = seen.path.p_norm
        return Outcome(
            hypotheses,
            -math.ulp(0.0) if fails and slack == 0 else slack,
            told,
            proof=self._proof(seen) if fails else None,
        )

    def _proof(self, seen: Measurements) -> str | None:
        """Once more in balls, where every measurement of the line has an enclosure."""
        for bits in (128, 512):
            sure = at_precision(bits, lambda: self._is_false(seen))
            if sure and "selection" in _names(self.claim) | _names(self.given or self.claim):
                return PROOF
            if sure:
                return f"fractions and ball arithmetic, {bits} bits"
        return None

    def _is_false(self, seen: Measurements) -> bool:
        for part, wanted in ((self.given, True), (self.claim, False)):
            if part is None:
                continue
            enclosed = {name: seen.ball(name) for name in _names(part)}
            if any(value is None for value in enclosed.values()):
                return False
            left, right = (_value(side, enclosed, 1) for side in (part.left, part.comparators[0]))
            sign, gap = SIGNS[type(part.ops[0])], left - right
            closed = _is_closed(part)
            if sign == 0:
                holds, fails = gap == 0, bool(gap > 0 or gap < 0)
            else:
                gap = gap * sign
                holds, fails = (gap >= 0, gap < 0) if closed else (gap > 0, gap <= 0)
            if not (holds if wanted else fails):
                return False
        return True


def parse(text: str) -> Expression:
    """A line as a conjecture; a ValueError lists what one may contain."""
    if len(text) > LONGEST:
        raise ValueError(f"a conjecture must be one line of at most {LONGEST} characters, got {len(text)}")
    claim, given, condition = text.partition(" given ")
    return Expression(text, _compare(claim), _compare(condition) if given else None)


def _compare(text: str) -> ast.Compare:
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(
            f"a conjecture must be a comparison such as 'selection == 1', got {text!r}"
        ) from None
    if not isinstance(tree, ast.Compare) or len(tree.ops) != 1 or type(tree.ops[0]) not in SIGNS:
        raise ValueError(
            f"a conjecture must be one comparison by <=, <, >=, > or ==, got {text.strip()!r}; "
            "a condition follows the word given"
        )
    for side in (tree.left, tree.comparators[0]):
        _check(side)
    return tree


def _check(node: ast.AST) -> None:
    """Refuse whatever is not arithmetic on measurements."""
    if isinstance(node, ast.Constant) and _is_number(node.value, 1e100):
        return
    if isinstance(node, ast.Name) and node.id in MEASUREMENTS:
        return
    if isinstance(node, ast.BinOp | ast.UnaryOp) and type(node.op) in OPERATORS:
        if isinstance(node.op, ast.Pow) and not _is_small(node):
            raise ValueError("an exponent must be a number of at most 10, as in margin ** 2")
        parts = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.operand]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS:
        if len(node.args) != 1 or node.keywords:
            raise ValueError(f"{node.func.id} must have one argument, got {ast.unparse(node)!r}")
        parts = node.args
    else:
        raise ValueError(
            f"a conjecture may hold numbers, + - * / **, {', '.join(FUNCTIONS)} and "
            f"{', '.join(MEASUREMENTS)}, got {ast.unparse(node)[:80]!r}"
        )
    for part in parts:
        _check(part)


def _is_number(value: object, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= most


def _is_small(node: ast.BinOp | ast.UnaryOp) -> bool:
    power = getattr(node, "right", None)
    return isinstance(power, ast.Constant) and _is_number(power.value, 10)


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and each.id in MEASUREMENTS}


def _is_closed(node: ast.Compare) -> bool:
    return isinstance(node.ops[0], ast.LtE | ast.GtE | ast.Eq)


def _is_measured(node: ast.Compare) -> bool:
    return bool(_names(node) - {"n", "T", "d"})


def _room(node: ast.Compare, seen: Measurements) -> float:
    """How far a comparison is from failing; undefined numbers are nan."""
    values = {name: seen[name] for name in _names(node)}
    try:
        gap = _value(node.left, values, 0) - _value(node.comparators[0], values, 0)
    except (ArithmeticError, ValueError):
        return math.nan
    sign = SIGNS[type(node.ops[0])]
    return float(-abs(gap) if sign == 0 else sign * gap) + 0.0


def _value(node: ast.AST, values: Mapping[str, Any], balls: int) -> Any:
    if isinstance(node, ast.Constant):
        return arb(node.value) if balls else float(node.value)  # type: ignore[arg-type]
    if isinstance(node, ast.Name):
        return values[node.id]
    if isinstance(node, ast.BinOp):
        sides = (_value(side, values, balls) for side in (node.left, node.right))
        power = isinstance(node.op, ast.Pow) and not balls
        return (math.pow if power else OPERATORS[type(node.op)])(*sides)
    if isinstance(node, ast.UnaryOp):
        return OPERATORS[type(node.op)](_value(node.operand, values, balls))
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    return FUNCTIONS[node.func.id][balls](_value(node.args[0], values, balls))
