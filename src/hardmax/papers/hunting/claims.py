"""Claim: the target of a hunt, of the papers or of a user, and the judgement on one candidate."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from inspect import signature
from typing import Any, Literal

from hardmax.papers.checking import check
from hardmax.papers.checking.check import Outcome, Reading, Statement
from hardmax.papers.checking.common import identity_embeddings
from hardmax.papers.checking.proof import as_slack
from hardmax.papers.hunting.expression import parse
from hardmax.papers.hunting.space import Candidate, Space, read_ranges, space_of
from hardmax.papers.hunting.words import VALUES
from hardmax.trials.provenance import named

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
