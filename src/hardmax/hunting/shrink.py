"""Smaller counterexamples, and a second look at them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hardmax._lib.parallel import serial_blas
from hardmax.hunting.candidate import Candidate
from hardmax.hunting.claims import Claim, Judgement

JUDGEMENTS = 600  # at most, in shrinking
LOOKS = 3  # in other orders of inputs, tokens and coordinates
SUSPICIOUS = 1e-6  # a slack closer to 0, relative to what was measured, is not even suspicious


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
    if not all(each.slack is not None and each.slack < 0 for each in others):
        return Second("nothing", 0)
    if not math.isfinite(found.slack):
        return Second("suspected", 0)
    off = max(abs(each.slack - found.slack) for each in others if each.slack is not None)
    digits = 15 if off == 0 else max(0, min(15, int(-math.log10(off / abs(found.slack) + 1e-300))))
    return Second("suspected" if abs(found.slack) > SUSPICIOUS else "nothing", digits)
