"""Claim: what is hunted, a statement of the papers or anyone's own, and the judgement on one candidate."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from inspect import signature
from typing import Any, Literal

from hardmax.papers.checking.check import (
    PRINTED,
    STATEMENTS,
    Outcome,
    Reading,
    Statement,
    outcome_of,
    statement_of,
    verdict_of,
)
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
        """The claim on a candidate; what its function raises is told, not raised."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                told = told_to(self.stated.test, candidate.options) if self.is_paper else candidate.options
                found = outcome_of(self.stated, candidate.subject(), **told)
            except Exception as error:
                return Judgement("refused", REFUSED, measured={"error": f"{type(error).__name__}: {error}"})
        return self._judged(found)

    def _judged(self, found: Outcome) -> Judgement:
        read = found.in_reading(self.reading)
        word: Word
        slack = read.slack
        unmet = tuple(h.id for h in read.hypotheses if h.holds is False)
        told = {"slack": slack, "unmet": unmet, "measured": found.measured}
        if unmet:
            return Judgement("not applicable", UNMET + len(unmet), **told)
        if slack is None or math.isnan(slack):
            return Judgement("undecided", UNDECIDED, **told)
        value = slack / (1 + abs(slack)) if math.isfinite(slack) else math.copysign(1.0, slack)
        open_ones = tuple(h.id for h in read.hypotheses if h.holds is None)
        if open_ones:
            word = "doubtful" if slack < 0 else "undecided"
            return Judgement(word, UNDECIDED + value, slack, unmet=open_ones, measured=found.measured)
        if slack < 0 and self.stated.kind == "existential" and self.reading == "corrected":
            # one instance says nothing against a claim that something exists
            return Judgement("undecided", UNDECIDED, slack, measured=found.measured)
        if slack < 0:
            verdict = verdict_of(self.stated, found, self.reading)
            word = "refuted" if verdict in ("fails", "refuted") and read.proof is not None else "suspected"
            return Judgement(word, value, slack, read.proof, (), found.measured)
        if read.vacuous:
            return Judgement("vacuous", VACUOUS, slack, measured=found.measured)
        return Judgement("holds", value, slack, measured=found.measured)


def need_given(claim: HuntedClaim, given: Mapping[str, Any]) -> None:
    """Refuse what a claim cannot be told, and what it must be told and is not."""
    asked = list(signature(claim.stated.test).parameters.values())[1:]
    known = [each.name for each in asked]
    for name in given:
        if name not in (*known, VALUES):
            raise ValueError(f"given must name {', '.join(known) or 'nothing'}, got {name}; leave it out")
    must = [each.name for each in asked if each.default is each.empty and each.kind is each.KEYWORD_ONLY]
    for name in must if VALUES not in given else ():
        if name not in given:
            raise ValueError(f"missing argument {name!r}; pass it in `given`")


def told_to(test: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a candidate as a statement takes them: values of words become scores or embeddings."""
    told = dict(options)
    values = told.pop(VALUES, None)
    if values is not None and "scores" in signature(test).parameters:
        told["scores"] = values
    elif values is not None:
        told["E"], told["v"] = identity_embeddings(values)
    return told


def claim_of(
    target: str | Callable[..., Any],
    reading: Reading = "corrected",
    space: str | None = None,
    loss: str | None = None,
) -> HuntedClaim:
    """A claim by an id, a file and name, an expression or a function, on problems of any or of one loss.

    >>> from hardmax.papers.hunting.claims import claim_of
    >>> claim_of("margin <= 2").stated.kind, claim_of("B-THM-3").is_paper
    ('finite', True)
    """
    found = _claim_of(target, reading, space)
    return replace(found, space=found.space.with_loss(loss))


def _claim_of(target: str | Callable[..., Any], reading: Reading, space: str | None) -> HuntedClaim:
    if callable(target):
        return _own(getattr(target, "__qualname__", "conjecture"), target, space)
    if target in STATEMENTS.places or target in STATEMENTS.entered:
        found = statement_of(target)
        return HuntedClaim(target, reading, space_of(found, space), found, True)
    if target in PRINTED.places:
        found = PRINTED[target]
        return HuntedClaim(target, "corrected", space_of(found, space), found, False)
    if any(sign in target for sign in "<>="):
        claim = parse(target)
        known = Space("scores", read_ranges(space, "problem"))
        return HuntedClaim(target, "corrected", known, _statement(target, claim), False)
    if ":" in target:
        function, _ = named(target)
        return _own(target, function, space)
    if "-" not in target:
        raise ValueError(
            "claim must be an id such as B-THM-3, a function as 'file.py:name' or a comparison such as "
            f"'margin <= 3', got {target!r}"
        )
    statement_of(target)  # names the ids that look like it
    raise AssertionError


def _own(name: str, function: Callable[..., Any], space: str | None) -> HuntedClaim:
    stated = _statement(name, function)
    return HuntedClaim(name, "corrected", space_of(stated, space), stated, False, is_custom=True)


def _statement(name: str, function: Callable[..., Any]) -> Statement:
    @wraps(function)  # so that its signature is known
    def test(subject: Any, **told: Any) -> Outcome:
        return outcome_from(function(subject, **told))

    return Statement(name, name, "conjecture", "finite", name, (), test, getattr(function, "kind", ""))


def outcome_from(value: Any) -> Outcome:
    """Convert what a user's function returned to an Outcome: a number is its slack, negative if it fails.

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
