"""Which hypothesis may be missing: one that the counterexample breaks, and under which a hunt ends empty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hardmax.directions.position import general_position
from hardmax.hunting.candidate import Candidate
from hardmax.hunting.claims import Claim
from hardmax.hunting.search import explore
from hardmax.problem import Problem
from hardmax.theory.check import Hypothesis, Outcome
from hardmax.theory.paper_b.common import distinct_scores, separable_best, strict_best

UNITS = 10  # of a hunt under one more condition, at most
APPLICABLE = 20  # instances that must have been judged under it for a word about it

CONDITIONS: dict[str, Callable[[Problem], bool | None]] = {
    "one input": lambda problem: problem.n == 1,
    "one best token per input": lambda problem: strict_best(problem).holds,
    "distinct scores": lambda problem: distinct_scores(problem).holds,
    "positive scores": lambda problem: bool((problem.scores > 0).all()),
    "best tokens separable": lambda problem: separable_best(problem)[0].holds,
    "keys in general position": lambda problem: general_position(problem, rng=0).holds,
}


def suggestions(claim: Claim, found: Candidate, word: str, tries: int, seed: int) -> tuple[str, ...]:
    """A line for each condition that the counterexample breaks and that keeps a hunt from finding another.

    Such a hunt has three times the units that the first one took, ten at most; an empty one is a hint. Of a
    refutation only another one counts, of a suspicion another suspicion too.
    """
    subject = found.subject()
    if not isinstance(subject, Problem) or subject.head.moves:
        return ()
    lines = []
    for name, holds in CONDITIONS.items():
        if holds(subject) is not False:
            continue
        narrowed, count, applicable = under(claim, name, holds), 0, 0
        for unit in range(min(3 * tries, UNITS)):
            ledger = explore(narrowed, seed + unit)
            count += ledger.count
            applicable += sum(ledger.words.get(word, 0) for word in ("holds", "refuted", "suspected"))
            if ledger.words.get("refuted") or ledger.words.get(word):
                break
        else:
            if applicable >= APPLICABLE:
                lines.append(f"with {name}: nothing found in {count} instances, {applicable} of them judged")
    return tuple(lines)


def under(claim: Claim, name: str, holds: Callable[[Problem], bool | None]) -> Claim:
    """The claim with one more hypothesis."""
    test = claim.stated.test

    def narrowed(subject: Problem, **told: Any) -> Outcome:
        met = Hypothesis(name, holds(subject))
        return test(subject, **told) if met.holds else Outcome((met,))

    return replace(claim, stated=replace(claim.stated, test=narrowed))
