"""Which selections attract depends on the norm (D-THM-4), and a strong one does attract (D-CONJ-0)."""

from __future__ import annotations

from collections.abc import Iterable

import hardmax as hm
from hardmax._lib.expect import generator
from hardmax.papers.checking.check import Hypothesis, Outcome, need, printed, statement
from hardmax.papers.checking.common import distinct_scores, fixed_scores
from hardmax.papers.geometry.statements.common import ROUNDING, separable, trained

MOST = 64  # selections whose words are compared
FAR = 20.0  # gaps of the logits where a run starts
TILT = 0.03  # how far its start is off the max margin, over the norm of that
FALL = 0.7  # of the deficit: at the end it is at most this share of the largest on the way


@statement(
    "D-THM-4",
    "The attracting selections depend on the norm",
    "Some selection attracts (strong) in one of the norms and does not (no) in another.",
    kind="existential",
    label="derived",
    errata=("D-ERR-5",),
)
def attracting_selections(problem: hm.Problem, *, norms: tuple[str, ...] = ("l1", "l2", "linf")) -> Outcome:
    """The words of every feasible selection, up to 64, in every norm; in l1 and linf by fractions."""
    hypotheses = need(
        fixed_scores(problem),
        Hypothesis("keys of several dimensions", problem.d > 1, problem.d),
        Hypothesis("several norms", len({hm.margin.norm(each).name for each in norms}) > 1, norms),
    )
    words = {
        each.selection: tuple(hm.attracts(problem, each.selection, norm=norm).written for norm in norms)
        for each in hm.selections(problem, limit=MOST)
    }
    differing = {tokens: row for tokens, row in words.items() if {"strong", "no"} <= set(row)}
    measured = {"selections": len(words), "attracting in some norms only": len(differing)}
    return Outcome(hypotheses, 1.0 if differing else -1.0, measured, witness=differing)


@statement(
    "D-CONJ-0",
    "A strong selection attracts in its norm",
    "Steepest descent in the norm, with falling steps, from inside the cone of a strong selection keeps "
    "selecting it, and its deficit tends to zero. What is seen: it falls.",
    kind="limit",
    hunt={"steps": 5000},
    label="conjecture",
)
def strong_attracts(
    problem: hm.Problem,
    *,
    norm: str = "linf",
    selection: Iterable[int] | None = None,
    steps: int = 20_000,
    rng: int = 0,
) -> Outcome:
    """From a point far out, a little off the max margin; step t moves no margin by more than 1/sqrt t."""
    best = separable(problem, norm, selection)
    word = hm.attracts(problem, best).written
    strong = need(Hypothesis("strong", word == "strong", word))
    p, rows, ball = best.need(), best.constraints.rows(), hm.margin.norm(norm)
    off = generator(rng).normal(size=p.shape)
    start = FAR * (p + TILT * best.p_norm / ball.value(off) * off)
    is_inside = bool((rows @ start.ravel() > FAR / 2).all())
    inside = Hypothesis("the start is in the cone", is_inside or None, best.margin_gap(start))
    rule = hm.optim.Normalized(1 / max(ball.dual.value(row) for row in rows), norm=norm, decay=0.5)
    run = trained(problem, rule, steps=steps, start=start)
    most, last = max(best.margin_gap(p) for p in run.points), run.margin_gap(best)
    end = run.selection
    if not end.is_unique:  # keys that doubles hardly tell apart
        return Outcome((*strong, inside, Hypothesis("the end selects one token per input", None)))
    stays = end.tokens == tuple(best.selection or ())
    measured = {"largest deficit": most, "at the end": last, "selection kept": stays, "event": run.event}
    none = most <= ROUNDING  # as in one dimension, where there is one direction
    slack = 0.0 if none else 1 - last / (FALL * most)
    return Outcome((*strong, inside), slack if stays else -1.0, measured, vacuous=none)


@printed("D-ERR-5")
def one_bias_for_all(problem: hm.Problem) -> Outcome:
    """Test the printed sentence: a selection that attracts in l1 attracts in linf too, and vice versa."""
    several = Hypothesis("keys of several dimensions", problem.d > 1, problem.d)
    hypotheses, differing = need(distinct_scores(problem), several), {}
    for each in hm.selections(problem, limit=16):
        words = {hm.attracts(problem, each.selection, norm=name).written for name in ("l1", "linf")}
        if words == {"strong", "no"}:
            differing[str(each.selection)] = sorted(words)
    return Outcome(hypotheses, (-1.0, "fractions") if differing else 1.0, {"apart": differing})
