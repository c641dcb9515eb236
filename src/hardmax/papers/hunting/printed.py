"""Printed sentences that have no check of their own, each as a claim with a proof where it fails.

They are entries of `catalogue`; `hardmax hunt B-ERR-14` hunts the sentence that the erratum is about.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb

from hardmax._lib.arrays import cosine_distance
from hardmax.data.corpora.corpus import Corpus
from hardmax.data.sentences.samples import Samples
from hardmax.directions.enumerate import selections
from hardmax.directions.neighbors import attracts
from hardmax.dynamics.flow import flow
from hardmax.embeddings import pattern_max_margin, take_first_step
from hardmax.embeddings.first_step import initial_event
from hardmax.margin.att_svm import best_max_margins, max_margin
from hardmax.nexttoken import analyze
from hardmax.papers.checking.check import Hypothesis, Outcome, unmet
from hardmax.papers.checking.proof import at_precision, settle_slack
from hardmax.papers.max_margin.statements.balls import BallProblem, has_balls, stationary_near
from hardmax.papers.max_margin.statements.common import distinct_scores, unit_length
from hardmax.papers.trained_embeddings.statements.common import important_tokens
from hardmax.problem import Problem
from hardmax.problem.selection import best_tokens

RATIONAL = "rational arithmetic"
FAR = 1e3  # times the |p| at which logits move by one
STEPS = 60  # of coordinate descent


class ListedSentences(list[str]):
    """Names the kind of data for the space: sentences as text."""


def no_critical_point(problem: Problem) -> Outcome:
    """B-ERR-14: the risk has no finite critical point."""
    some = Hypothesis("scores differ in some input", bool(np.ptp(problem.scores) > 0))
    if unmet([some]):
        return Outcome((some,))
    path = flow(problem, until_norm=FAR * unit_length(problem))
    if path.event != "stationary point":
        return Outcome(
            (some,), 1 / (1 + 1 / max(path.p_norm, 1e-9)), {"norm": path.p_norm, "event": path.event}
        )
    proof = stationary_near(problem, path.p, 1e-6 * unit_length(problem))
    return Outcome((some,), -1.0, {"norm": path.p_norm}, path.p, proof=proof)


def one_best_direction(problem: Problem) -> Outcome:
    """B-ERR-15: the best-scoring tokens have one max-margin direction."""
    found = [each for _, each in best_max_margins(problem, exact=True)]
    vectors = {tuple(each.exact.p) for each in found if each.exact is not None and each.exact.p is not None}
    none = all(each.status == "infeasible" for each in found)
    wrong = none or len(vectors) > 1
    told = {"directions": len(vectors), "selections": len(found)}
    return Outcome(slack=-1.0 if wrong else 1.0, measured=told, proof=RATIONAL if wrong else None)


def score_as_key(problem: Problem) -> Outcome:
    """B-ERR-18: the score as one more coordinate of the keys leaves the direction of the others alone."""
    tokens = best_tokens(problem)
    one = Hypothesis("one best token per input", tokens.is_unique)
    plane = max_margin(problem, tokens.tokens, exact=True) if tokens.is_unique else None
    parts = zip(problem.split(problem.keys[problem.tokens]), problem.split(problem.scores), strict=True)
    lifted = [np.column_stack([keys, scores]) for keys, scores in parts]
    hypotheses = (one, Hypothesis("separable", plane is not None and plane.is_feasible))
    if unmet(hypotheses) or plane is None or plane.exact is None or plane.exact.p is None:
        return Outcome(hypotheses)
    space = max_margin(Problem(lifted, problem.split(problem.scores)), tokens.tokens, exact=True)
    if space.exact is None or space.exact.p is None or plane.direction is None:
        return Outcome(hypotheses)
    u, w = list(plane.exact.p), list(space.exact.p)[: problem.d]
    turned = any(u[i] * w[j] != u[j] * w[i] for i in range(len(u)) for j in range(i))
    if not any(w):
        return Outcome(hypotheses, 0.0, vacuous=True)
    gap = cosine_distance([float(x) for x in u], [float(x) for x in w])
    return Outcome(
        hypotheses, -max(gap, 1e-300) if turned else 0.0, {"1 - cos": gap}, proof=RATIONAL if turned else None
    )


def low_score_first(problem: Problem) -> Outcome:
    """B-ERR-19: in the first step the logistic loss pulls more at the input with the lower score.

    As in the rule of thumb, margins are equal and the other token scores 0, so that the best scores decide.
    """
    two = Hypothesis("two inputs", problem.n >= 2)
    gaps = sorted(float(part.max()) for part in problem.split(problem.scores)[:2])
    hypotheses = (two, Hypothesis("two different positive scores", 0 < gaps[0] < gaps[-1]))
    if unmet(hypotheses):
        return Outcome(hypotheses)

    def pull(gap: Any) -> Any:
        return gap / (1 + (gap / 2).exp())

    def room() -> Any:
        low, high = (pull(arb(x)) for x in gaps)
        return low / high - 1

    slack, proof = settle_slack(float(room().mid()), room)
    return Outcome(hypotheses, slack, {"scores": gaps}, proof=proof)


def short_solutions(corpus: Corpus) -> Outcome:
    """A-ERR-15: |p_hat| <= 4 n on event (14), whatever else the initial embeddings are."""
    condition, important = important_tokens(corpus)
    if important is None:
        return Outcome((condition,))
    rooms = []
    S, n, T = corpus.S, corpus.n, corpus.T
    for shrink in (1.0, 2.0**-4, 2.0**-8, 2.0**-12):
        E = np.column_stack([shrink * np.eye(S), np.zeros((S, 2))])
        p, v = np.eye(S + 2)[S:]
        if not initial_event(E, p, v, delta=0.1).holds:
            continue
        after = take_first_step(corpus, E, p, v, first_rate=4.0 * n**2 * T**2).E
        best = pattern_max_margin(corpus, [[s] for s in important], after, exact=True)
        if best.exact is not None and best.exact.norm_squared:
            rooms.append(
                (float(1 - best.p_norm / (4 * n)), best.exact.norm_squared > Fraction(4 * n) ** 2, shrink)
            )
    if not rooms:
        return Outcome((condition,), 0.0, vacuous=True)
    slack, longer, shrink = min(rooms)
    proof = f"{RATIONAL}, embeddings of length {shrink:g}" if longer else None
    return Outcome((condition,), slack, {"|E_s|": shrink}, proof=proof)


def next_token_is_reached(data: ListedSentences) -> Outcome:
    """C-ERR-02: under Assumption 1 some token of every sentence leads to its next token."""
    found = analyze(data)
    hypotheses = (Hypothesis("C-ASM-1", found.assumptions["C-ASM-1"]),)
    missed = [each for each in found.violations if each.kind == "unreachable"]
    if unmet(hypotheses):
        return Outcome(hypotheses)
    told = {"out of reach": len(missed)}
    return Outcome(hypotheses, -1.0 if missed else 1.0, told, proof="counted" if missed else None)


def strangers_are_absent(data: ListedSentences) -> Outcome:
    """C-ERR-04: a token that is non-comparable under a query never stands in a sentence with that query."""
    found = analyze(data)
    hypotheses = (Hypothesis("legal data", found.legal),)
    if unmet(hypotheses):
        return Outcome(hypotheses)
    samples = Samples.from_trie(found.trie)
    words = list(samples.vocabulary)
    there = 0
    for i in range(samples.n):
        tokens = [words.index(each) for each in samples.sentence(i).split()]
        types = found.orders.types(tokens[-1])
        there += sum(types[x] == "non_comparable" for x in set(tokens))
    return Outcome(hypotheses, -1.0 if there else 1.0, {"there": there}, proof="counted" if there else None)


def coordinate_descent_grows(problem: Problem) -> Outcome:
    """D-ERR-2: where the best tokens separate, coordinate descent with a constant step of 1 diverges.

    Its points are whole numbers. Each move is decided in balls, so that a point that comes again proves that
    the same moves come for ever.
    """
    best = best_tokens(problem)
    hypotheses = (
        distinct_scores(problem),
        Hypothesis("rivals in some input", bool((problem.sizes > 1).any())),
        Hypothesis("separable", best.is_unique and max_margin(problem, best.tokens).is_feasible),
        Hypothesis("a loss with balls", has_balls(problem)),
    )
    if unmet(hypotheses):
        return Outcome(hypotheses)

    def walk() -> tuple[str, list[int]]:
        exact, p, seen = BallProblem(problem), [0] * problem.d, set()
        for _ in range(STEPS):
            if tuple(p) in seen:
                return "cycle", p
            seen.add(tuple(p))
            pull = exact.pull([arb(x) for x in p])
            top = max(range(problem.d), key=lambda j: abs(float(pull[j].mid())))
            if not all(abs(pull[top]) > abs(x) for j, x in enumerate(pull) if j != top) or pull[top].contains(
                0
            ):
                return "tie", p
            p[top] += 1 if pull[top] > 0 else -1
        return "on", p

    event, p = at_precision(256, walk)
    length = float(sum(map(abs, p)))
    if event == "tie":
        return Outcome(hypotheses, None, {"event": event})
    if event == "on":
        return Outcome(hypotheses, length / STEPS, {"|p|_1": length})
    return Outcome(
        hypotheses, -1.0, {"comes again": p}, p, proof="every move decided in ball arithmetic, 256 bits"
    )


def one_bias_for_all(problem: Problem) -> Outcome:
    """D-ERR-5: a selection that attracts in l1 attracts in linf too, and the other way round."""
    hypotheses = (
        distinct_scores(problem),
        Hypothesis("keys of several dimensions", problem.d > 1, problem.d),
    )
    if unmet(hypotheses):
        return Outcome(hypotheses)
    apart = {}
    for each in selections(problem, limit=16):
        said = {attracts(problem, each.selection, norm=name).written for name in ("l1", "linf")}
        if said == {"strong", "no"}:
            apart[str(each.selection)] = sorted(said)
    return Outcome(hypotheses, -1.0 if apart else 1.0, {"apart": apart}, proof="fractions" if apart else None)


PRINTED: dict[str, Callable[..., Outcome]] = {
    "B-ERR-14": no_critical_point,
    "B-ERR-15": one_best_direction,
    "B-ERR-18": score_as_key,
    "B-ERR-19": low_score_first,
    "A-ERR-15": short_solutions,
    "C-ERR-02": next_token_is_reached,
    "C-ERR-04": strangers_are_absent,
    "D-ERR-2": coordinate_descent_grows,
    "D-ERR-5": one_bias_for_all,
}
