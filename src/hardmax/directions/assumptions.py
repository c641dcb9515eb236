"""Assumptions B, C and D of paper B on the data at hand, each with a witness where it fails."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import combinations, islice, pairwise, product

import numpy as np
from scipy.optimize import minimize

from hardmax._lib.arguments import check_arguments
from hardmax._lib.expect import generator, whole
from hardmax.directions.direction import slope_range
from hardmax.margin.batch import solve_batch
from hardmax.margin.constraints import Floats
from hardmax.problem import Problem
from hardmax.problem.selection import Selection, best_tokens, chosen_slots

CORNERS = 512  # selections that Assumption C is tried on


@dataclass(frozen=True)
class AssumptionB:
    """One best token per input and one score for all others; ``witness`` is (i, two tokens of input i)."""

    holds: bool
    witness: tuple[int, int, int] | None


@check_arguments
def assumption_b(problem: Problem) -> AssumptionB:
    """Test Assumption B: gamma_it = gamma_is < gamma_i,opt for all other tokens t, s of every input."""
    best = best_tokens(problem).sets
    groups = problem.split(problem.groups - np.repeat(problem.offsets[:-1], problem.sizes))
    for i, (tokens, scores, group) in enumerate(
        zip(best, problem.split(problem.scores), groups, strict=True)
    ):
        if len(tokens) > 1:
            return AssumptionB(False, (i, tokens[0], tokens[1]))
        others = np.flatnonzero(group != tokens[0])
        odd = others[scores[others] != scores[others[:1]]]
        if len(odd):
            return AssumptionB(False, (i, int(others[0]), int(odd[0])))
    return AssumptionB(True, None)


@dataclass(frozen=True, eq=False)
class AssumptionC:
    """The label margin falls by at least nu times the attention lost by the selected tokens.

    ``nu`` is the least ratio found over free attention weights, so the true constant over all weights is at
    most that: a nu of zero, with its ``witness`` (attention weights per input), disproves the assumption for
    free weights, a positive one is evidence. ``Gamma`` is the label margin on the selected values.
    """

    holds: bool
    Gamma: float
    nu: float
    witness: tuple[Floats, ...]


@check_arguments
def assumption_c(
    problem: Problem,
    selection: Iterable[int],
    *,
    inputs: Collection[int] | None = None,
    rng: int | np.random.Generator,
    draws: int = 2000,
) -> AssumptionC:
    """Estimate nu of Assumption C: the least (Gamma - M(s)) / max_i (1 - s_i,selected) over attention s.

    M(s) is the label margin of the attended values (0 if they do not separate). Random weights and
    other selections (up to 512), then a local search.

    Args:
        problem: with values and labels.
        selection: one token per input.
        inputs: those that the maximum looks at, for example the support of the label SVM, as Theorem 6 does.
        rng: a seed or a Generator.
        draws: how many random weights to try.
    """
    table, labels = problem.readout.values, problem.readout.labels
    if table is None or labels is None:
        raise ValueError("problem must have values and labels; make it with from_values or from_tokens")
    tokens = tuple(selection)
    chosen_slots(problem, tokens)
    chosen = sorted(range(problem.n) if inputs is None else inputs)
    if not chosen or not 0 <= chosen[0] <= chosen[-1] < problem.n:
        raise ValueError(f"inputs must be some of 0 to {problem.n - 1}, got {inputs!r:.60}")
    values = [labels[i] * v for i, v in enumerate(problem.split(table[problem.tokens]))]
    mixing = _Mixing([values[i] for i in chosen], [tokens[i] for i in chosen])
    Gamma = float(mixing.margins(np.zeros((1, mixing.width)))[0])
    if Gamma == 0 or mixing.width == 0:  # nothing to mix with: nothing is lost
        return AssumptionC(Gamma > 0, Gamma, Gamma, mixing.weights(np.zeros(mixing.width)))
    points = np.concatenate([mixing.draw(whole("draws", draws), generator(rng)), mixing.corners()])
    ratios = mixing.ratios(points, Gamma)
    best, nu = points[int(np.argmin(ratios))], float(ratios.min())
    for start in points[np.argsort(ratios)[:3]]:
        result = minimize(
            lambda x: float(mixing.ratios(x[None], Gamma)[0]),
            start,
            method="Nelder-Mead",
            bounds=[(0.0, 1.0)] * mixing.width,
            options={"maxfev": 60 * mixing.width},
        )
        if result.fun < nu:
            best, nu = result.x, float(result.fun)
    nu = max(nu, 0.0)
    # nu is where a local search stopped, right to a few digits: no exact zero is to be expected of it.
    return AssumptionC(nu > 1e-6 * Gamma, Gamma, nu, mixing.weights(best))


class _Mixing:
    """Attention weights as shares x >= 0 of the tokens not selected, scaled to a sum of at most 1."""

    def __init__(self, values: list[Floats], tokens: list[int]) -> None:
        self.values, self.tokens = values, tokens
        self.steps = [np.delete(v, t, axis=0) - v[t] for v, t in zip(values, tokens, strict=True)]
        self.sizes = [len(step) for step in self.steps]
        self.width = sum(self.sizes)

    def corners(self) -> Floats:
        """Attention on one token of every input, in few another than selected: a search may miss these."""
        ends = np.cumsum([0, *self.sizes]).tolist()
        others = [range(first, last) for first, last in pairwise(ends)]
        choices = (inputs for many in range(1, len(others) + 1) for inputs in combinations(others, many))
        moved = list(islice((places for inputs in choices for places in product(*inputs)), CORNERS))
        points = np.zeros((len(moved), self.width))
        for point, places in zip(points, moved, strict=True):
            point[list(places)] = 1.0
        return points

    def parts(self, x: Floats) -> list[Floats]:
        cuts = np.split(x, np.cumsum(self.sizes)[:-1], axis=-1)
        return [part / np.maximum(part.sum(axis=-1, keepdims=True), 1.0) for part in cuts]

    def weights(self, x: Floats) -> tuple[Floats, ...]:
        return tuple(np.insert(y, t, 1 - y.sum()) for y, t in zip(self.parts(x), self.tokens, strict=True))

    def margins(self, x: Floats) -> Floats:
        triples = zip(self.parts(x), self.steps, self.values, self.tokens, strict=True)
        rows = np.stack([v[t] + part @ step for part, step, v, t in triples], axis=1)
        return np.array([best.margin for best in solve_batch(rows, workers=1)])

    def ratios(self, x: Floats, Gamma: float) -> Floats:
        attention = np.max([part.sum(axis=-1) for part in self.parts(x)], axis=0)
        far = attention > 1e-9  # nearer by, the ratio is all rounding
        ratios = np.full(len(x), np.inf)
        if far.any():
            ratios[far] = (Gamma - self.margins(x[far])) / attention[far]
        return ratios

    def draw(self, count: int, rng: np.random.Generator) -> Floats:
        """Each unselected token alone, a little and fully; then random weights of all sizes."""
        alone = np.concatenate([size * np.eye(self.width) for size in (1e-3, 0.1, 1.0)])
        x = rng.exponential(size=(count, self.width)) * 10.0 ** rng.uniform(-3, 1, size=(count, 1))
        used = rng.random((count, len(self.sizes))) < 0.5
        return np.concatenate([alone, np.minimum(x * np.repeat(used, self.sizes, axis=1), 1.0)])


@dataclass(frozen=True)
class AssumptionD:
    """Lemma 14's constants, under which Assumption D holds for a linear head.

    With q the largest attention outside the sets: C_minus q <= L(p) - L* <= C_plus q. ``witness`` is an input
    that breaks the lemma's conditions: scores of a set differ, are not positive, or do not exceed the rest.
    """

    holds: bool
    witness: int | None
    nu: tuple[float, ...] = ()
    epsilon: float = math.nan
    C: float = math.nan
    C_plus: float = math.nan
    C_minus: float = math.nan

    @property
    def Theta(self) -> float:
        """Ratio C_plus / C_minus of the two constants."""
        return self.C_plus / self.C_minus

    def rho(self, Delta: float) -> float:
        """Below this log q the order of log q, by a factor 1 + Delta, is the order of the risks."""
        return -2 * (1 + 1 / Delta) * math.log(self.Theta)


@check_arguments
def assumption_d(problem: Problem, sets: Selection | None = None) -> AssumptionD:
    """Test the conditions of Lemma 14 for the best-scoring tokens (or other ``sets``); give its constants."""
    inside = (sets or best_tokens(problem)).sets
    scores = problem.split(problem.scores)
    groups = problem.split(problem.groups - np.repeat(problem.offsets[:-1], problem.sizes))
    nu = tuple(float(g[o[0]]) for g, o in zip(scores, inside, strict=True))
    # Copies of a token of the set belong to it.
    rest = [g[~np.isin(group, group[list(o)])] for g, o, group in zip(scores, inside, groups, strict=True)]
    epsilon, C = math.inf, 0.0
    for i, outside in enumerate(rest):
        room = 1 - outside.max() / nu[i] if len(outside) and nu[i] > 0 else math.inf
        if nu[i] <= 0 or (scores[i][list(inside[i])] != nu[i]).any() or room <= 0:
            return AssumptionD(False, i)
        epsilon, C = min(epsilon, float(room)), max(C, -float(outside.min(initial=0.0)))
    if not any(len(outside) for outside in rest):
        raise ValueError("Assumption D is vacuous because sets holds every token; leave out a token")
    least, most = slope_range(problem.loss, float(problem.scores.max()), float(problem.scores.min()))
    C_plus, C_minus = most * (C + max(nu)), least * epsilon * min(nu) / problem.n
    return AssumptionD(True, None, nu, epsilon, C, C_plus, C_minus)
