"""Claims: the target of a hunt, of the papers or of a user, and the judgement on one candidate.

A conjecture may be one line over named measurements: ``selection == 1 given margin > 0.5``. The text is
parsed, never run: numbers, the names of `MEASUREMENTS`, + - * / **, a few functions and one comparison.
"""

from __future__ import annotations

import ast
import math
import operator
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, wraps
from inspect import signature
from typing import Any, Literal

import numpy as np
from flint import arb

from hardmax.dynamics.flow import flow
from hardmax.dynamics.measures import loss
from hardmax.dynamics.run import Run
from hardmax.margin.att_svm import max_margin
from hardmax.margin.solution import MaxMargin
from hardmax.papers.checking import check
from hardmax.papers.checking.check import Hypothesis, Outcome, Reading, Statement
from hardmax.papers.checking.common import identity_embeddings, longest_difference, unit_length
from hardmax.papers.checking.enclosure import PROOF, selected
from hardmax.papers.checking.proof import as_slack, at_precision
from hardmax.papers.hunting.candidates import VALUES, Candidate, Space, read_ranges, space_of
from hardmax.problem import Problem
from hardmax.problem.selection import best_tokens
from hardmax.trials.provenance import named

FAR = 1e4  # times the |p| at which logits move by one: how far the flow runs
LONGEST = 500  # characters


class Measurements:
    """The measurements of one problem, each made on first use; a flow is run once at most."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def __getitem__(self, name: str) -> float:
        return float(MEASUREMENTS[name](self))

    @cached_property
    def best(self) -> MaxMargin:
        """p_mm of the best-scoring tokens."""
        return max_margin(self.problem, best_tokens(self.problem).tokens)

    @property
    def is_separable(self) -> bool:
        """Whether the best-scoring tokens have a max-margin direction."""
        return bool(self.best.is_feasible and self.best.direction is not None)

    @cached_property
    def path(self) -> Run:
        """The flow from 0."""
        return flow(self.problem, until_norm=FAR * unit_length(self.problem))

    @cached_property
    def limit(self) -> MaxMargin | None:
        """p_mm of the selection of the flow; None if it has none."""
        chosen = self.path.selection
        if not chosen.is_unique or not self.path.p_norm > 0:
            return None
        best = max_margin(self.problem, chosen.tokens)
        return None if best.direction is None else best

    @property
    def hits(self) -> int:
        """The number of inputs in which the flow selects best-scoring tokens alone."""
        good = best_tokens(self.problem).sets
        return sum(set(a) <= set(b) for a, b in zip(self.path.selection.sets, good, strict=True))

    def ball(self, name: str) -> Any | None:
        """Enclose the true measurement in a ball; None where there is no enclosure."""
        if name in COUNTS:
            return arb(int(self[name]))
        if name == "margin" and self.is_separable:
            exact = max_margin(self.problem, best_tokens(self.problem).tokens, exact=True).exact
            if exact is None:
                return None
            square = exact.norm_squared
            return (arb(int(square.denominator)) / int(square.numerator)).sqrt()
        if name == "margin" and self.best.status == "infeasible":
            return arb(0)
        if name != "selection" or not self.path.selection.is_unique or self.path.event is not None:
            return None
        token = selected(self.problem, np.zeros(self.problem.d))  # proved, for one input
        return arb(self.hits) / self.problem.n if (token,) == self.path.selection.tokens else None


MEASUREMENTS: dict[str, Callable[[Measurements], float]] = {
    # max margin of the best-scoring tokens, 0 if nothing separates them
    "margin": lambda measurements: measurements.best.margin if measurements.is_separable else 0.0,
    # share of inputs in which the flow from 0 selects best-scoring tokens alone
    "selection": lambda measurements: measurements.hits / measurements.problem.n,
    # 1 - cos between the flow and p_mm of its selection
    "misalignment": lambda measurements: (
        math.nan if measurements.limit is None else measurements.path.cosine_distance(measurements.limit)
    ),
    # distance of the flow's margin from that of p_mm, as a share of it
    "deficit": lambda measurements: (
        math.nan if measurements.limit is None else measurements.path.margin_gap(measurements.limit)
    ),
    # |p| where the flow ended, in units in which logits move by one
    "norm": lambda measurements: measurements.path.p_norm * longest_difference(measurements.problem),
    # mean loss where the flow ended
    "risk": lambda measurements: loss(measurements.problem, measurements.path.p),
    # inputs, tokens of the longest input, dimensions
    "n": lambda measurements: measurements.problem.n,
    "T": lambda measurements: int(measurements.problem.sizes.max()),
    "d": lambda measurements: measurements.problem.d,
}
COUNTS = {"n", "T", "d"}  # known exactly

OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
FUNCTIONS = ("abs", "sqrt", "log", "exp")
# Numbers, powers and functions in both arithmetics: math.pow has no complex results.
FLOATS = {"number": float, "power": math.pow, "abs": abs} | {f: getattr(math, f) for f in FUNCTIONS[1:]}
BALLS = {"number": arb, "power": operator.pow, "abs": abs} | {f: getattr(arb, f) for f in FUNCTIONS[1:]}
SIGNS: dict[type[ast.cmpop], int] = {ast.LtE: -1, ast.Lt: -1, ast.GtE: 1, ast.Gt: 1, ast.Eq: 0}
Term = Callable[[Mapping[str, Any]], Any]  # of FLOATS or BALLS, with the measurements in the same numbers


@dataclass(frozen=True)
class Relation:
    """A parsed comparison of two terms; ``sign`` is that of left - right where it holds, 0 for ==."""

    text: str
    left: Term
    right: Term
    sign: int
    closed: bool
    names: frozenset[str]

    def _gap(self, values: Mapping[str, Any]) -> Any:
        """Return how far the comparison is from failing, in the numbers of the values."""
        gap = self.left(values) - self.right(values)
        return self.sign * gap if self.sign else -abs(gap)

    def room(self, measurements: Measurements) -> float:
        """Return how far the comparison is from failing; undefined numbers are nan."""
        values = FLOATS | {name: measurements[name] for name in self.names}
        try:
            return float(self._gap(values)) + 0.0
        except (ArithmeticError, ValueError):
            return math.nan

    def decide(self, measurements: Measurements) -> bool | None:
        """Decide the comparison in balls; None if a measurement has no enclosure, or it is too wide."""
        enclosed = {name: measurements.ball(name) for name in self.names}
        if any(value is None for value in enclosed.values()):
            return None
        gap = self._gap(BALLS | enclosed)
        if gap >= 0 if self.closed else gap > 0:
            return True
        return False if (gap < 0 if self.closed else gap <= 0) else None


@dataclass(frozen=True)
class Expression:
    """A parsed comparison, and a condition on the problems that it is about; call it with a problem.

    >>> import hardmax as hm
    >>> from hardmax.papers.hunting.claims import parse
    >>> claim = parse("margin <= 0.5 given n == 2")
    >>> found = claim(hm.data.example("B-FIG-8"))
    >>> round(found.slack, 6), found.hypotheses[0].holds
    (0.183772, True)
    """

    claim: Relation
    condition: Relation | None

    def __call__(self, problem: Problem) -> Outcome:
        """Test the conjecture on a problem."""
        measurements = Measurements(problem)
        hypotheses: tuple[Hypothesis, ...] = ()
        if self.condition is not None:
            room = self.condition.room(measurements)
            holds = None if math.isnan(room) else room >= 0 if self.condition.closed else room > 0
            if holds and room < 1e-9 and self.condition.names - COUNTS:
                holds = None  # within rounding of the bound
            hypotheses = (Hypothesis(self.condition.text, holds, room),)
            if not holds:
                return Outcome(hypotheses)
        slack = self.claim.room(measurements)
        fails = slack < 0 or (slack == 0 and not self.claim.closed)
        measured = {name: measurements[name] for name in sorted(self.claim.names)}
        if "path" in measurements.__dict__:
            measured["|p| of the flow"] = measurements.path.p_norm
        if not fails:
            return Outcome(hypotheses, slack, measured)
        # once more in balls, where all measurements have enclosures
        condition, proof = self.condition, None

        def is_refuted() -> bool:
            applies = condition is None or condition.decide(measurements)
            return bool(applies and self.claim.decide(measurements) is False)

        for bits in (128, 512):
            if proof is None and at_precision(bits, is_refuted):
                names = self.claim.names | (condition.names if condition else frozenset())
                proof = PROOF if "selection" in names else f"fractions and ball arithmetic, {bits} bits"
        return Outcome(hypotheses, slack or -math.ulp(0.0), measured, proof=proof)


def parse(text: str) -> Expression:
    """Parse a line as a conjecture; a ValueError lists what one may contain."""
    if len(text) > LONGEST:
        raise ValueError(f"a conjecture must be one line of at most {LONGEST} characters, got {len(text)}")
    claim, word, condition = text.partition(" given ")
    return Expression(_compare(claim), _compare(condition) if word else None)


def _compare(text: str) -> Relation:
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        problem = f"a conjecture must be a comparison such as 'selection == 1', got {text!r}"
        raise ValueError(problem) from None
    if not isinstance(tree, ast.Compare) or len(tree.ops) != 1 or type(tree.ops[0]) not in SIGNS:
        raise ValueError(
            f"a conjecture must be one comparison by <=, <, >=, > or ==, got {text.strip()!r}; "
            "a condition follows the word given"
        )
    left, right = _term(tree.left), _term(tree.comparators[0])
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} & {*MEASUREMENTS}
    closed = isinstance(tree.ops[0], ast.LtE | ast.GtE | ast.Eq)
    return Relation(ast.unparse(tree), left, right, SIGNS[type(tree.ops[0])], closed, frozenset(names))


def _term(node: ast.AST) -> Term:
    """Return arithmetic on measurements as a function of their values; refuse any other node."""
    match node:
        case ast.Constant(value=value) if _is_number(value, 1e100):
            return lambda values: values["number"](value)
        case ast.Name(id=name) if name in MEASUREMENTS:
            return lambda values: values[name]
        case ast.BinOp(op=ast.Pow(), left=base, right=exponent):
            if not (isinstance(exponent, ast.Constant) and _is_number(exponent.value, 10)):
                raise ValueError("an exponent must be a number of at most 10, as in margin ** 2")
            first, second = _term(base), _term(exponent)
            return lambda values: values["power"](first(values), second(values))
        case ast.BinOp(op=op, left=left, right=right) if type(op) in OPERATORS:
            binary, one, other = OPERATORS[type(op)], _term(left), _term(right)
            return lambda values: binary(one(values), other(values))
        case ast.UnaryOp(op=op, operand=operand) if type(op) in OPERATORS:
            unary, of = OPERATORS[type(op)], _term(operand)
            return lambda values: unary(of(values))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=keywords) if name in FUNCTIONS:
            if len(arguments) != 1 or keywords:
                raise ValueError(f"{name} must have one argument, got {ast.unparse(node)!r}")
            inner = _term(arguments[0])
            return lambda values: values[name](inner(values))
    raise ValueError(
        f"a conjecture may hold numbers, + - * / **, {', '.join(FUNCTIONS)} and "
        f"{', '.join(MEASUREMENTS)}, got {ast.unparse(node)[:80]!r}"
    )


def _is_number(value: object, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= most


Word = Literal[
    "refuted", "suspected", "doubtful", "holds", "vacuous", "undecided", "not applicable", "refused"
]

# What the search minimizes where there is no slack: the further from an applicable claim, the more.
VACUOUS, UNDECIDED, UNMET, REFUSED = 2.0, 3.0, 10.0, 1000.0


@dataclass(frozen=True)
class Judgement:
    """A claim on one candidate: a word, the slack with its proof, and a value for the search, least best."""

    word: Word
    value: float
    slack: float | None = None
    proof: str | None = None
    unmet: tuple[str, ...] = ()
    measured: Mapping[str, Any] = field(default_factory=dict)

    @property
    def fails(self) -> bool:
        """Refuted or suspected."""
        return self.word in ("refuted", "suspected")


@dataclass(frozen=True)
class HuntedClaim:
    """A claim to hunt, and the space in which to hunt it.

    >>> import numpy as np
    >>> from hardmax.papers.hunting.claims import claim_of
    >>> claim = claim_of("B-THM-1", "paper")
    >>> drawn = claim.space.draw(np.random.default_rng(0))
    >>> claim.judge(drawn).word in ("refuted", "holds", "not applicable", "undecided", "vacuous")
    True
    """

    target: str
    reading: Reading
    space: Space
    stated: Statement
    is_paper: bool  # one of the papers' statements, which `hardmax verify` knows
    is_custom: bool = False  # a user's function, which may treat tokens by their position

    def judge(self, candidate: Candidate) -> Judgement:
        """Judge a candidate; an exception in the function of the claim becomes a word."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                options = candidate.options
                options = told_to(self.stated.test, options) if self.is_paper else options
                outcome = check.outcome_of(self.stated, candidate.subject(), **options)
            except Exception as error:
                return Judgement("refused", REFUSED, measured={"error": f"{type(error).__name__}: {error}"})
        read, measured = outcome.in_reading(self.reading), outcome.measured
        word: Word
        slack = read.slack
        unmet = tuple(h.id for h in read.hypotheses if h.holds is False)
        if unmet:
            return Judgement("not applicable", UNMET + len(unmet), slack, None, unmet, measured)
        if slack is None or math.isnan(slack):
            return Judgement("undecided", UNDECIDED, slack, measured=measured)
        value = slack / (1 + abs(slack)) if math.isfinite(slack) else math.copysign(1.0, slack)
        open_ones = tuple(h.id for h in read.hypotheses if h.holds is None)
        if open_ones:
            word = "doubtful" if slack < 0 else "undecided"
            return Judgement(word, UNDECIDED + value, slack, None, open_ones, measured)
        if slack >= 0:
            word = "vacuous" if read.vacuous else "holds"
            return Judgement(word, VACUOUS if read.vacuous else value, slack, measured=measured)
        if self.stated.kind == "existential" and self.reading == "corrected":
            # one instance is not evidence against a claim that something exists
            return Judgement("undecided", UNDECIDED, slack, measured=measured)
        verdict = check.verdict_of(self.stated, outcome, self.reading)
        word = "refuted" if verdict in ("fails", "refuted") and read.proof is not None else "suspected"
        return Judgement(word, value, slack, read.proof, (), measured)


def need_given(claim: HuntedClaim, given: Mapping[str, Any]) -> None:
    """Refuse options that a claim does not take, and the lack of one that it requires."""
    parameters = list(signature(claim.stated.test).parameters.values())[1:]
    names = [p.name for p in parameters]
    for name in given:
        if name not in (*names, VALUES):
            raise ValueError(f"given must name {', '.join(names) or 'nothing'}, got {name}; leave it out")
    for p in parameters if VALUES not in given else ():
        if p.default is p.empty and p.kind is p.KEYWORD_ONLY and p.name not in given:
            raise ValueError(f"missing argument {p.name!r}; pass it in `given`")


def told_to(test: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as a statement takes them: values of words become scores or embeddings."""
    arguments = dict(options)
    values = arguments.pop(VALUES, None)
    if values is not None and "scores" in signature(test).parameters:
        arguments["scores"] = values
    elif values is not None:
        arguments["E"], arguments["v"] = identity_embeddings(values)
    return arguments


def claim_of(
    target: str | Callable[..., Any],
    reading: Reading = "corrected",
    space: str | None = None,
    loss: str | None = None,
) -> HuntedClaim:
    """Return a claim by an id, a file and name, an expression or a function, on problems of any loss or one.

    >>> from hardmax.papers.hunting.claims import claim_of
    >>> claim_of("margin <= 2").stated.kind, claim_of("B-THM-3").is_paper
    ('finite', True)
    """
    name = target if isinstance(target, str) else getattr(target, "__qualname__", "conjecture")
    is_comparison, function = False, target
    if isinstance(target, str):
        is_paper = target in check.STATEMENTS.places or target in check.STATEMENTS.entered
        if is_paper or target in check.PRINTED.places:
            stated = (check.STATEMENTS if is_paper else check.PRINTED)[target]
            where = space_of(stated, space).with_loss(loss)
            return HuntedClaim(target, reading if is_paper else "corrected", where, stated, is_paper)
        is_comparison = any(sign in target for sign in "<>=")
        if is_comparison:
            function = parse(target)
        elif ":" in target:
            function, _ = named(target)
        elif "-" in target:
            check.statement_of(target)  # raises a ValueError with similar ids
        else:
            raise ValueError(
                "claim must be an id such as B-THM-3, a function as 'file.py:name' or a comparison such as "
                f"'margin <= 3', got {target!r}"
            )
    stated = _statement(name, function)
    where = Space("scores", read_ranges(space, "problem")) if is_comparison else space_of(stated, space)
    return HuntedClaim(name, "corrected", where.with_loss(loss), stated, False, is_custom=not is_comparison)


def _statement(name: str, function: Any) -> Statement:
    @wraps(function)  # with its signature
    def test(subject: Any, **options: Any) -> Outcome:
        return outcome_from(function(subject, **options))

    return Statement(name, name, "conjecture", "finite", name, (), test, getattr(function, "kind", ""))


def outcome_from(value: Any) -> Outcome:
    """Convert the result of a user's function to an Outcome: a number is its slack, negative if it fails.

    A fraction and a ball carry their own proof; a float carries none.

    >>> from fractions import Fraction
    >>> from hardmax.papers.hunting.claims import outcome_from
    >>> outcome_from(Fraction(-1, 3)).proof, outcome_from(-0.5).proof
    ('fractions', None)
    """
    if isinstance(value, Outcome):
        return value
    try:
        if value is None:
            raise ValueError
        slack, proof = as_slack(value)
    except ValueError:
        raise ValueError(
            f"a conjecture must return a number (its slack), a bool or an Outcome, got {type(value).__name__}"
        ) from None
    return Outcome(slack=slack, proof=proof)
