"""Joint training of v and p: Theorems 5 and 6, and the interpolated SVM (B-NEW-1, B-NEW-1b)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

import hardmax as hm
from hardmax.directions.assumptions import assumption_c
from hardmax.directions.joint_margins import largest_label_margins
from hardmax.dynamics.gradient import with_readout
from hardmax.limits.paths import LARGEST
from hardmax.papers.checking import common
from hardmax.papers.checking.check import Conditions, Hypothesis, Outcome, need, statement, unmet, unsaid
from hardmax.problem import Problem

LATER = 3  # radii at which an approach is looked for
DEGREES = 0.05  # how far, in degrees, training may still be from its limit
SATURATED = 1e-3


def degrees(p: Any, q: Any) -> float:
    """The angle between two directions."""
    return math.degrees(2 * math.asin(math.sqrt(hm.cosine_distance(p, q) / 2)))


def _trainable_head(problem: Problem) -> Conditions:
    """Return the conditions under which v and p can be trained together."""
    name = problem.loss.name
    linear = Hypothesis("linear head", problem.readout.linear is not None)
    return Conditions([linear, Hypothesis("logistic loss", name == "logistic", name)])


@statement(
    "B-NEW-1",
    "The limit of p when the norm of v grows like rho times that of p",
    "Joint normalized descent with rates in the ratio rho sends p to q*(rho), between p_mm and the relaxed "
    "direction, and v to the label SVM's direction.",
    kind="limit",
    data="tokens",
    label="derived",
    errata=("B-ERR-02",),
)
def interpolated_limit(
    problem: Problem, *, rho: float, start: Any, steps: int = 20_000, rate: float = 0.1
) -> Outcome:
    """Train from ``start`` with the problem's head; the selection is the one that training settles on."""
    hypotheses = _trainable_head(problem)
    if unmet(hypotheses) or common.longest_difference(problem) == 0:  # then p does not matter
        return unsaid(hypotheses)
    rules = (hm.optim.Normalized(rate), hm.optim.Normalized(rho * rate))
    path = hm.train(problem.joint(), rules, steps=steps, start=start)
    chosen, lost = path.selection, path.off_top_attention()
    hypotheses.need(Hypothesis("attention saturates", chosen.is_unique and lost < 1e-5, lost))
    label = hm.directions.label_max_margin(problem, chosen.tokens)
    hypotheses.need(Hypothesis("labels separable", label.is_feasible, label.margin))
    relaxed = hm.directions.relaxed_max_margin(problem, chosen.tokens)
    hypotheses.need(Hypothesis("a token competes on the label SVM's support", relaxed.direction is not None))
    limit = hm.directions.interpolated_max_margin(problem, rho, chosen.tokens)
    # the last snapshots, because a step of the descent may swing around its limit
    off = max(degrees(p, limit.direction) for p in path.points[-20:])
    off_v = degrees(np.asarray(path.v_points)[-1], label)
    measured = {"selected": chosen.tokens, "degrees to q*": off, "degrees of v to v_mm": off_v}
    measured["rho*"] = limit.rho_star
    return Outcome(hypotheses, 1 - max(off, off_v) / DEGREES, measured, witness=path.p)


RESOLVED = 1e-7  # radians


def late_pair(problem: Problem, best: hm.MaxMargin, label: hm.MaxMargin, rho: float | None) -> float:
    """The R from which p may be judged against ``best`` and v, at rho R if it grows, against ``label``."""
    fixed = with_readout(problem, common.along(label))
    radius = common.late_for(fixed, best)
    return radius if rho is None else max(radius, common.late_for(fixed, label) / rho)


def judge_path(
    problem: Problem,
    direction: Any,
    label: hm.MaxMargin | None,
    late: float,
    *,
    rho: float | None = None,
    r: float | None = None,
    tokens: tuple[int, ...] | None = None,
) -> tuple[float | None, hm.limits.JointPath | None, dict[str, Any]]:
    """The joint path when it is late and at twice that radius: its angles must fall like 1/R.

    A tight row without a multiplier makes that (log R)/R, from a radius on that scores set, and an offset
    may pass through zero on its way: what does not fall is looked at again at four times the radii. Only
    what stalls refutes; an angle whose fall becomes steeper from look to look is not late yet. The slack is
    None there, and where one look is all that is within reach.

    Args:
        problem: with a linear head.
        direction: of p in the limit.
        label: of v in the limit; None if only p is judged.
        late: the first radius.
        rho: how |v| is bound, as `joint_path` takes it.
        r: the fixed |v| of `joint_path`.
        tokens: what p has to select at the last look; None if that is not judged.
    """
    measured: dict[str, Any] = {"late from": late}
    path, looks, agrees = None, [], True
    longest = float(np.linalg.norm(np.asarray(problem.readout.values), axis=1).max())
    for _ in range(LATER):
        # logits at the radius R, and predictions at |v| = rho R, no larger than paths were tried
        R = 2 * late
        if R * common.longest_difference(problem) > LARGEST or (rho or 0.0) * R * longest > LARGEST:
            break
        path = hm.limits.joint_path(problem, [late, 2 * late], rho=rho, r=r)
        angles = [path.angle(direction)] + ([] if label is None else [path.head_angle(label)])
        # three quarters of an angle may be left at twice the radius: the error is O(1/R)
        looks.append([(after / max(0.75 * before, RESOLVED), after < before) for before, after in angles])
        measured |= {"radii": path.radii, "agreeing starts": path.agreeing}
        measured |= {f"degrees of {name}": np.degrees(x) for name, x in zip("pv", angles, strict=False)}
        if tokens is not None:
            measured["selected"] = hm.selected_tokens(problem, path.points[-1]).sets
            agrees = measured["selected"] == tuple((t,) for t in tokens)
        if max(looks[-1])[0] <= 1 and agrees:
            break
        late *= 4
    if path is None or not agrees:
        return None if path is None else -1.0, path, measured
    slack = float(1 - max(looks[-1])[0])
    stalls = len(looks) > 1 and any(
        last > 1 and (last >= first or not falls)
        for (first, _), (last, falls) in zip(looks[0], looks[-1], strict=True)
    )
    return slack if slack >= 0 or stalls else None, path, measured


def judge_pair(
    problem: Problem, best: hm.MaxMargin, label: hm.MaxMargin, rho: float | None, r: float | None
) -> tuple[float | None, hm.limits.JointPath | None, dict[str, Any]]:
    """The late path of p against ``best`` and of v against ``label``; open where no two starts agree."""
    if r is not None:
        rho = None
    late = late_pair(problem, best, label, rho)
    # a fixed r leaves v on its way, wherever p goes
    slack, path, measured = judge_path(problem, best, label if r is None else None, late, rho=rho, r=r)
    agreed = path is not None and bool((path.agreeing >= 2).all())
    return slack if agreed else None, path, measured


def joint_hypotheses(problem: Problem, tokens: tuple[int, ...], inputs: set[int] | None) -> list[Hypothesis]:
    """Linear head, logistic loss, separable selection and labels, and Assumption C on the given inputs."""
    hypotheses = _trainable_head(problem)
    if unmet(hypotheses):
        return hypotheses
    best, label = hm.max_margin(problem, tokens), hm.directions.label_max_margin(problem, tokens)
    hypotheses += [
        Hypothesis("selection separable", best.is_feasible, best.margin),
        Hypothesis("labels separable", label.is_feasible, label.margin),
    ]
    if unmet(hypotheses):
        return hypotheses
    C = assumption_c(problem, tokens, inputs=inputs, rng=0, draws=400)
    return [*hypotheses, Hypothesis("B-ASM-C", C.holds, C.nu)]


@statement(
    "B-THM-5",
    "Theorem 5: the joint path when every input supports the label margin",
    "Under Assumption C, with r and R growing together, the path of least risk over |v| <= r, |p| <= R "
    "tends to the directions of v_mm and p_mm.",
    kind="limit",
    data="tokens",
    errata=("B-ERR-02", "B-ERR-13"),
)
def joint_path_limit(
    problem: Problem, *, selection: Iterable[int], rho: float | None = 1.0, r: float | None = None
) -> Outcome:
    """The late path with r = rho R, or with a fixed r, which the corrected statement excludes."""
    tokens = tuple(selection)
    common.need_rivals(problem, [(t,) for t in tokens], _trainable_head(problem))
    hypotheses = joint_hypotheses(problem, tokens, None)
    hypotheses.append(Hypothesis("r grows with R", r is None, rho if r is None else r, erratum="B-ERR-02"))
    if unmet([h for h in hypotheses if h.erratum is None]):
        return Outcome(hypotheses)
    best, label = hm.max_margin(problem, tokens), hm.directions.label_max_margin(problem, tokens)
    slack, path, measured = judge_pair(problem, best, label, rho, r)
    witness = None if path is None else path.points[-1]
    return Outcome(hypotheses, slack, measured, witness, paper_slack=slack)


@statement(
    "B-THM-6",
    "Theorem 6: the joint path in general",
    "If Assumption C holds on the label SVM's support and |v| grows at least rho* times as fast as |p|, the "
    "joint path tends to the directions of v_mm and of the relaxed SVM.",
    kind="limit",
    data="tokens",
    draws=("selection", "rho"),
    errata=("B-ERR-02", "B-ERR-13"),
)
def relaxed_limit(
    problem: Problem, *, selection: Iterable[int], rho: float | None = None, r: float | None = None
) -> Outcome:
    """The late path against the relaxed direction; the paper leaves the coupling of r and R open.

    Where it goes elsewhere, B-NEW-1 says where and why; that is derived, not proved, and refutes nothing.
    """
    tokens = tuple(selection)
    common.need_rivals(problem, [(t,) for t in tokens], _trainable_head(problem))
    support = None
    if problem.readout.linear is not None:
        label = hm.directions.label_max_margin(problem, tokens)
        support = set(np.flatnonzero(label.tight).tolist()) if label.is_feasible else None
    hypotheses = need(*joint_hypotheses(problem, tokens, support))
    threshold = hm.directions.interpolated_max_margin(problem, 1.0, tokens).rho_star
    fast = rho is not None and rho > threshold
    hypotheses.append(Hypothesis("|v| grows more than rho* |p|", fast, [rho, threshold], erratum="B-ERR-02"))
    label = hm.directions.label_max_margin(problem, tokens)
    relaxed = hm.directions.relaxed_max_margin(problem, tokens)
    slack, path, measured = judge_pair(problem, relaxed, label, rho, r)
    if path is None:
        return Outcome(hypotheses, None, measured)
    # s -> 1, as far as two radii show it: little is lost, less at the larger one
    sets = common.with_copies(problem, [(t,) for t in tokens])
    first, last = (float(common.log_lost(problem, p, sets).max()) for p in path.points)
    saturates = (last < math.log(SATURATED) and last < first) or None
    hypotheses.append(Hypothesis("the selected attention tends to 1", saturates, [first, last]))
    return Outcome(hypotheses, slack, measured, path.points[-1], paper_slack=slack)


@statement(
    "B-NEW-1b",
    "The selection itself may depend on rho",
    "The joint path with r = rho R selects the tokens, and tends to the direction, of the interpolated SVM "
    "maximized over selections.",
    kind="limit",
    data="tokens",
    label="derived",
)
def selection_depends_on_rho(
    problem: Problem, *, rho: float, selection: Iterable[int] | None = None
) -> Outcome:
    """The late path; ``selection`` fixes the tokens beforehand, which the statement warns against."""
    hypotheses = need(*_trainable_head(problem))
    fixed: Any = "best" if selection is None else selection
    try:
        limit = hm.directions.interpolated_max_margin(problem, rho, fixed)
    except ValueError as reason:
        return Outcome((*hypotheses, Hypothesis("labels separable", False, str(reason))))
    label: Any = limit.label
    hypotheses.append(Hypothesis("labels separable", True, label.margin))
    if selection is None:
        # selections of the largest label margin have one direction of v; else constants of the risk decide
        limits = largest_label_margins(problem)
        rivals = [tokens for tokens, other in limits.items() if degrees(other, label) > 1e-6]
        one = "one direction of the largest label margin"
        hypotheses.append(Hypothesis(one, None if rivals else True, rivals))
    best = hm.max_margin(problem, limit.selection)
    if unmet(hypotheses) or best.direction is None:
        return Outcome(hypotheses, None, {"predicted": limit.selection})
    late, tokens = late_pair(problem, best, label, rho), tuple(limit.selection)
    slack, path, measured = judge_path(problem, limit.direction, None, late, rho=rho, tokens=tokens)
    measured["predicted"] = limit.selection
    return Outcome(hypotheses, slack, measured, None if path is None else path.points[-1])
