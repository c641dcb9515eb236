"""Joint training of head and p: label SVM, relaxed SVM and the cases between (B-DEF-14, B-NEW-1, 1b)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Literal, cast

import numpy as np

from hardmax._lib.arguments import check_arguments
from hardmax.directions.enumerate import selections
from hardmax.margin.att_svm import AttentionRows
from hardmax.margin.label_svm import InterpolatedMaxMargin, label_svm, rho_svm
from hardmax.margin.solution import MaxMargin
from hardmax.margin.solve import exactly, solve
from hardmax.problem import Problem
from hardmax.problem.selection import chosen_slots, leaders


@check_arguments
def label_max_margin(problem: Problem, selection: Iterable[int], *, exact: bool = False) -> MaxMargin:
    """Solve the label SVM on the selected values: the shortest v with Y_i v.x_selected >= 1.

    Its margin is the label margin Gamma, its support the inputs (i,) with a tight constraint, also those
    whose multiplier is zero (B-ERR-13).

    >>> import hardmax as hm
    >>> best = hm.directions.label_max_margin(hm.data.example("B-FIG-3a"), [1, 1, 1])
    >>> best.p.round(12).tolist(), best.support
    ([0.0, 1.0], ((0,), (1,), (2,)))
    """
    values, labels = problem.readout.values, problem.readout.labels
    if values is None or labels is None:
        raise ValueError("problem must have values and labels; make it with from_values or from_tokens")
    tokens = tuple(selection)
    chosen = values[problem.tokens[chosen_slots(problem, tokens)]]
    return replace(label_svm(chosen, labels, exact), selection=leaders(problem, tokens))


@check_arguments
def relaxed_max_margin(
    problem: Problem, selection: Iterable[int], relax: Collection[int] | None = None, *, exact: bool = False
) -> MaxMargin:
    """Solve the relaxed SVM (10): inputs in the support of the label SVM are separated by 1, others by 0.

    Args:
        problem: with values and labels, unless ``relax`` is given.
        selection: one token per input.
        relax: the inputs to be separated by 0; those outside the support of the label SVM by default.
        exact: compute in rational numbers.

    >>> import hardmax as hm
    >>> hm.directions.relaxed_max_margin(hm.data.example("B-FIG-3b"), [1, 1, 1]).p.round(12).tolist()
    [1.0, -0.0]
    """
    tokens = leaders(problem, selection)
    if relax is None:
        relax = set(range(problem.n)) - _support(label_max_margin(problem, tokens))
    elif wrong := [i for i in relax if not 0 <= i < problem.n]:
        raise ValueError(f"relax must be inputs from 0 to {problem.n - 1}, got {wrong[0]!r}")
    constraints = AttentionRows(problem).constraints(enumerate(tokens))
    h = np.array([float(label[0] not in relax) for label in constraints.labels or ()])
    return replace(solve(replace(constraints, h=h), exact), selection=tokens)


@check_arguments
def interpolated_max_margin(
    problem: Problem, rho: float, selection: Iterable[int] | Literal["best"]
) -> InterpolatedMaxMargin:
    """Solve the rho-interpolated SVM (B-NEW-1) of a selection, or of the "best" feasible one (B-NEW-1b).

    The best selection has the largest label margin; among equals, the risk that falls fastest, compared from
    its slowest term on. Attention is taken to saturate on a feasible selection. Where an input outside the
    label SVM's support keeps a token whose rival has the larger label margin, attention on the rival is a
    gain, and may decide the direction (see `hardmax.margin.label_svm.rho_svm`).

    >>> import numpy as np, hardmax as hm
    >>> tokens = [[[0, 0], [1, 1]], [[0, 0], [2, -1]], [[1.6, 1.2], [0.6, 2.4]]]
    >>> problem = hm.Problem.from_tokens(tokens, labels=[1, -1, 1], readout=[0.0, 1.0])
    >>> for rho in (1.0, 8.0):
    ...     limit = hm.directions.interpolated_max_margin(problem, rho, "best")
    ...     limit.selection, round(float(np.degrees(np.arctan2(*limit.direction[::-1]))), 1)
    ((1, 1, 1), 39.8)
    ((1, 1, 0), 26.6)
    """
    if not rho >= 0:
        raise ValueError(f"rho must be a number of at least 0, got {rho}")
    if not isinstance(selection, str):
        return _interpolate(problem, leaders(problem, selection), rho)
    limits = [_interpolate(problem, tokens, rho) for tokens in largest_label_margins(problem)]
    unit = max(limit.margin for limit in limits)
    # Exponents are roots of quadratics, right to rounding: nine digits decide, and equal ones stay equal.
    return max(limits, key=lambda limit: [round(x / unit, 9) for x in limit.exponents])


def largest_label_margins(problem: Problem) -> dict[tuple[int, ...], MaxMargin]:
    """The feasible selections whose values have the largest label margin, each with its label SVM."""
    labels = {
        feasible.selection: label_max_margin(problem, feasible.selection)
        for feasible in selections(problem)
        if feasible.direction is not None
    }
    separable = {tokens: label for tokens, label in labels.items() if label.is_certified}
    if not separable:
        raise ValueError("problem must have a feasible selection whose values separate the labels, got none")
    largest = max(label.margin for label in separable.values())
    # Nearly equal margins are compared as rational numbers; problems too large for that count as equal.
    near = {t: exactly(label) for t, label in separable.items() if label.margin >= (1 - 1e-8) * largest}
    shortest = min((exact.norm_squared for exact in near.values() if exact), default=None)
    return {t: separable[t] for t, exact in near.items() if exact is None or exact.norm_squared == shortest}


def _interpolate(problem: Problem, tokens: tuple[int, ...], rho: float) -> InterpolatedMaxMargin:
    label = label_max_margin(problem, tokens)
    support = _support(label)
    assert label.slack is not None
    rows = AttentionRows(problem)
    blocks = [rows.constraints([pair]).rows() for pair in enumerate(tokens)]
    nu = np.array([0.0 if i in support else slack for i, slack in enumerate(label.slack.tolist())])
    best = rho_svm(blocks, nu, support, label.margin, rho, _gains(problem, tokens, label, rows))
    delays = [rho * label.margin * x if x else 0.0 for x in nu.tolist()]
    solution, exponents = replace(best.solution, selection=tokens), tuple(sorted([*delays, best.margin]))
    return replace(best, solution=solution, label=label, exponents=exponents)


def _gains(
    problem: Problem, tokens: tuple[int, ...], label: MaxMargin, rows: AttentionRows
) -> list[tuple[int, int]]:
    """The rows (input, row) whose rival has the larger label margin: attention on it lowers the risk."""
    table, labels = problem.readout.values, problem.readout.labels
    assert table is not None
    assert labels is not None
    v = exactly(label)
    gains = []
    for i, (token, values) in enumerate(zip(tokens, problem.split(table[problem.tokens]), strict=True)):
        for row, (_, t) in enumerate(rows.constraints([(i, token)]).labels or ()):
            rival = values[cast(int, t)]
            ahead = labels[i] * (rival - values[token])
            gain = float(ahead @ np.asarray(label.direction))
            # Near zero the sign is taken in fractions, which only more than 200 inputs do without.
            if abs(gain) <= 1e-6 * np.linalg.norm(ahead) and v is not None and v.p is not None:
                pairs = zip(rival.tolist(), values[token].tolist(), v.p, strict=True)
                exact = sum((Fraction(a) - Fraction(b)) * x for a, b, x in pairs) * int(labels[i])
                gain = float((exact > 0) - (exact < 0))
            if gain > 0:
                gains.append((i, row))
    return gains


def _support(label: MaxMargin) -> set[int]:
    if not label.is_certified:
        raise ValueError(f"selection must have values that separate the labels, got {label.status}")
    return {cast(int, i) for (i,) in label.support}
