"""Smaller counterexamples, and a second look at them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature

import numpy as np

from hardmax._lib.parallel import serial_blas
from hardmax.hunting.candidate import Candidate
from hardmax.hunting.claims import Claim, Judgement

JUDGEMENTS = 600  # at most, in shrinking
LOOKS = 3  # in other orders of inputs, tokens and coordinates
FEWEST = 2  # digits that must agree: fewer are rounding


def shrink(
    claim: Claim, candidate: Candidate, found: Judgement, tell: Callable[[int], object] = lambda count: None
) -> tuple[Candidate, Judgement]:
    """Fewest inputs, tokens and dimensions, then simple numbers, as long as it fails in the same word.

    Greedy: the first simpler candidate that fails as well is taken, and all is tried again from there.
    """
    count = 0
    with serial_blas():
        while count < JUDGEMENTS:
            for there in candidate.shrunk(claim.space.ranges):
                if there.cost >= candidate.cost or not np.isfinite(there.vector()).all():
                    continue
                judged = claim.judge(there)
                count += 1
                tell(count)
                if judged.word == found.word or judged.word == "refuted":
                    candidate, found = there, judged
                    break
                if count >= JUDGEMENTS:
                    break
            else:
                break
    return candidate, found


@dataclass(frozen=True)
class Second:
    """What a second look says: the word that stands, and of a suspicion how many digits agree."""

    word: str
    digits: int | None = None


def look_again(claim: Claim, candidate: Candidate, found: Judgement) -> Second:
    """Judge the same data in other orders of inputs, tokens and coordinates: answers must not depend on it.

    A hypothesis that holds in one order and not in another is doubtful. A refutation stands by its proof,
    which is in fractions or balls; a suspicion must have the same sign each time, and its digits are those
    that agree.
    """
    rng = np.random.default_rng(0)
    with serial_blas():
        others = [claim.judge(candidate.shuffled(rng)) for _ in range(LOOKS)]
    if any(each.word in ("not applicable", "doubtful", "refused") for each in others):
        return Second("doubtful")
    if found.word == "refuted":
        return Second("refuted")
    assert found.slack is not None
    if (later := _later(claim, candidate)) is not None:
        others.append(later)
        if later.slack is not None and later.slack > 0.5 * found.slack:
            return Second("nothing", 0)  # it was only not late enough
    if not all(each.slack is not None and each.slack < 0 for each in others):
        return Second("nothing", 0)
    if not math.isfinite(found.slack):
        return Second("suspected", 0)
    off = max(abs(each.slack - found.slack) for each in others[:LOOKS] if each.slack is not None)
    digits = 15 if off == 0 else max(0, min(15, int(-math.log10(off / abs(found.slack) + 1e-300))))
    return Second("suspected" if digits >= FEWEST else "nothing", digits)


def _later(claim: Claim, candidate: Candidate) -> Judgement | None:
    """The same with ten times as many steps, where the claim is a limit and its training has a length."""
    asked = signature(claim.stated.test).parameters.get("steps") if claim.stated.kind == "limit" else None
    if asked is None:
        return None
    longer = {**candidate.options, "steps": 10 * candidate.options.get("steps", asked.default)}
    return claim.judge(candidate.told(longer))
