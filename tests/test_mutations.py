"""No check passes by saying yes: each of these mistakes is noticed by a statement, or by tests.

A mistake is an edit of the source: right text -> wrong text. ``STATEMENTS`` holds those that an instance of a
statement notices: a wrong constant, sign or exponent gives it another verdict. ``TESTS`` holds those that
named tests notice.


As a part of the tests, the mistakes in the theory are made in memory, one after another. ``make mutations``
(or ``python tests/test_mutations.py``) also makes the others, in a copy of the tree, and prints what notices
each mistake.
"""

import inspect
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from hardmax.papers.checking.check import PRINTED, Check, statements
from hardmax.papers.checking.check import STATEMENTS as REGISTRY
from hardmax.papers.checking.instances import instances
from hardmax.papers.figures.figure import RECIPES

ROOT = Path(__file__).parents[1]
B = "papers/max_margin"
A = "papers/trained_embeddings"
C = "papers/next_token"
D = "papers/geometry"


@dataclass(frozen=True)
class Mutation:
    """A mistake in one file of the package, and what notices it: an instance of a statement, or tests."""

    name: str
    file: str
    edits: dict[str, str]
    tests: tuple[str, ...] = ()
    id: str = ""
    instance: str = ""
    verdict: str = ""  # that the mistake leads to

    def mutate(self, text: str) -> str:
        for right, wrong in self.edits.items():
            if text.count(right) != 1:
                raise ValueError(f"{self.file}: expected {right!r} once, got it {text.count(right)} times")
            text = text.replace(right, wrong)
        return text


TESTS = (
    Mutation(
        "the top token's key is added, not taken away",
        "problem/kernels.py",
        {"(table[token, j] - table[reference, j])": "(table[token, j] + table[reference, j])"},
        ("tests/dynamics/test_gradient_oracles.py", "tests/dynamics/test_train.py"),
    ),
    Mutation(
        "tied tokens are not held equal",
        "margin/closed_forms.py",
        {"pairs = [*wins, *ties]": "pairs, ties = [*wins], []"},
        ("tests/margin/test_oracles.py", "tests/embeddings/test_patterns.py"),
    ),
    Mutation(
        "certified is what the solver says",
        "margin/solve.py",
        {
            "return (measured.kkt <= tolerance) & (measured.lower > 0) & narrow": (
                "return np.ones_like(narrow, dtype=bool)"
            )
        },
        ("tests/margin/test_truth.py", "tests/margin/test_fuzz.py", "tests/margin/test_batch.py"),
    ),
    Mutation(
        "no maximization over selections: the first feasible one",
        "directions/joint_margins.py",
        {"return max(limits, key=": "return min(limits[:1], key="},
        (
            "tests/margin/test_problems.py",
            "tests/papers/checking/test_numbers.py::test_the_selection_switches_with_rho",
        ),
    ),
)

# file -> (statement, instance, right text, wrong text, verdict that the mistake leads to); several texts that
# are wrong together are tuples
Text = str | tuple[str, ...]
STATEMENTS: dict[str, list[tuple[str, str, Text, Text, str]]] = {
    f"{B}/several_optimal.py": [
        (
            "B-APP-E",
            "B-FIG-9, d = 2, trial 0",
            "*(other for other in near if gamma[other] >= gamma[t])",
            "*()",
            "fails",
        ),
        (
            "B-THM-8",
            "two winners per input",
            "max(0.5 * near, FLOOR)",
            "max(0.025 * near, FLOOR)",
            "undecided",
        ),
        (
            "B-THM-8N",
            "tanh",
            "loss.log_slope(float(phi(np.array(u)))) +",
            "loss.log_slope(u) + 0 *",
            "undecided",
        ),
        (
            "B-THM-L14",
            "two winners per input",
            "low, high = math.log(D.C_minus),",
            "low, high = math.log(D.C_minus) + 0.1,",
            "fails",
        ),
    ],
    "directions/assumptions.py": [
        (
            "B-ASM-B",
            "B-FIG-1a",
            "    best = best_tokens(problem).sets\n",
            "    best = tuple((T - 1,) for T in problem.sizes.tolist())\n",
            "fails",
        )
    ],
    f"{B}/lemmas.py": [
        ("B-ASM-C", "B-FIG-3a", "POSITIVE = 1e-6", "POSITIVE = 0.9", "fails"),
        (
            "B-ASM-D",
            "negative scores",
            "assumption_d(problem, inside)",
            "assumption_d(hm.Problem(problem.split(problem.keys[problem.tokens]), "
            "problem.split(problem.scores + 9)), inside)",
            "holds",
        ),
        ("B-THM-L1", "random tokens", "POWER = {False: 2,", "POWER = {False: 1,", "fails"),
        ("B-THM-L1", "random tokens, normalized", "True: 1}", "True: 2}", "fails"),
        (
            "B-THM-L2",
            "equal labels",
            "@ (head.labels[0] * head.v) /",
            "@ (0.99 * head.labels[0] * head.v) /",
            "fails",
        ),
        ("B-THM-L3", "random tokens", "bound = 2 * (largest(scores)", "bound = (largest(scores)", "fails"),
        (
            "B-THM-L4",
            "B-FIG-1a",
            ("float(hm.gradient(problem, p).direction @ along)", "return pull @ p_mm"),
            ("-float(hm.gradient(problem, p).direction @ along)", "return -pull @ p_mm"),
            "fails",
        ),
        (
            "B-THM-L5",
            "B-FIG-1a",
            ("return 1 + pi - pull", "1 + math.log(losers) / reach"),
            ("return 1 - pi - pull", "1 - math.log(losers) / reach"),
            "fails",
        ),
        (
            "B-THM-L8",
            "a high scorer behind the neighbor",
            "(min(gap, first.delta, second.delta), gap)",
            "(gap, gap)",
            "fails",
        ),
        (
            "B-THM-L9",
            "B-FIG-1b, token 2",
            ("rooms = [-e.sign", "-exact.excess("),
            ("rooms = [e.sign", "exact.excess("),
            "fails",
        ),
        (
            "B-THM-L10",
            "B-FIG-8",
            "proof = problem.d, None, None",
            "proof = problem.d - 1, None, None",
            "fails",
        ),
    ],
    f"{B}/finite.py": [
        (
            "B-EQ-73",
            "B-FIG-8",
            "lost - (-margin * R - np.log(T)), -margin * R + np.log(T) - lost",
            "lost - (-margin * R), -margin * R - lost",
            "fails",
        ),
        (
            "B-EQ-75",
            "B-FIG-3a",
            "(C.Gamma - SURE * nu * lost) - math.log(2 * problem.n)",
            "(C.Gamma - 2 * SURE * nu * lost)",
            "undecided",
        ),
        (
            "B-EQ-79",
            "a third input that is squeezed",
            "lost - (-margin * R - np.log(T)), -margin * R + np.log(T) - lost",
            "lost - (-margin * R), -margin * R - lost",
            "fails",
        ),
        (
            "B-EQ-79",
            "a third input that is squeezed",
            "full.margin * relaxed.margin / (full.margin + epsilon * (relaxed.margin - full.margin))",
            "relaxed.margin",
            "fails",
        ),
        (
            "B-EQ-84",
            "two winners per input",
            "lost - (-margin * R - np.log(T)), -margin * R + np.log(T) - lost",
            "lost - (-margin * R), -margin * R - lost",
            "fails",
        ),
    ],
    f"{B}/convergence.py": [
        (
            "B-ERR-21",
            "B-FIG-1b, random starts",
            "local = hm.attracts(problem, best).verdict",
            "local = not hm.attracts(problem, best).verdict",
            "undecided",
        ),
        (
            "B-THM-2",
            "B-FIG-1a",
            "abs(rate / limit.p_norm - 1)",
            "abs(rate / (2 * limit.p_norm) - 1)",
            "undecided",
        ),
        (
            "B-THM-2",
            "B-FIG-1a",
            "    path = hm.flow(problem, start=start, until_norm=FAR * best",
            "    best = next(each for t in (1, 2) if (each := hm.max_margin(problem, [t])).is_feasible)\n"
            "    path = hm.flow(problem, start=start, until_norm=FAR * best",
            "fails",
        ),
        (
            "B-THM-2M",
            "B-FIG-1a from (0, 1), after the transient",
            "TRANSIENT = 0.1 ",
            "TRANSIENT = 0.01 ",
            "fails",
        ),
    ],
    f"{B}/joint_training.py": [
        (
            "B-NEW-1",
            "B-FIG-3b, rho = 0.5",
            "interpolated_max_margin(problem, rho, chosen.tokens)",
            "interpolated_max_margin(problem, 1.1 * rho, chosen.tokens)",
            "undecided",
        ),
        (
            "B-NEW-1b",
            "switching third input, rho = 8",
            "interpolated_max_margin(problem, rho, fixed",
            "interpolated_max_margin(problem, rho / 8, fixed",
            "undecided",
        ),
        (
            "B-THM-5",
            "B-FIG-3a, r = R",
            "max(0.75 * before, RESOLVED)",
            "max(0.3 * before, RESOLVED)",
            "undecided",
        ),
        (
            "B-THM-6",
            "B-FIG-3b, r = R/2",
            "hm.directions.interpolated_max_margin(problem, 1.0, tokens).rho_star",
            "0.0",
            "undecided",
        ),
        (
            "B-THM-6",
            "B-FIG-3b, r = 1.5 R",
            "relaxed = hm.directions.relaxed_max_margin(problem, tokens)",
            "relaxed = hm.max_margin(problem, tokens)",
            "undecided",
        ),
    ],
    f"{B}/paths.py": [
        ("B-NEW-2", "B-FIG-8", "(float(R) * along + w)", "(float(R) * along - w)", "undecided"),
        ("B-NEW-3", "B-FIG-8", "eta = late.eta_c\n", "eta = 1.1 * late.eta_c\n", "undecided"),
        ("B-NEW-3", "random keys", "eta = late.eta_c\n", "eta = 0.9 * late.eta_c\n", "undecided"),
        ("B-THM-1", "B-FIG-8", "max(0.5 * near, FLOOR)", "max(0.025 * near, FLOOR)", "undecided"),
        (
            "B-THM-1",
            "B-FIG-8",
            "    within = path_bound(",
            "    best = next(each for t in (1, 2) if (each := hm.max_margin(problem, [t, 0])).is_feasible)\n"
            "    within = path_bound(",
            "undecided",
        ),
        ("B-NEW-4", "B-FIG-8", "total = 1 - infinity.sum", "total = infinity.sum", "fails"),
        (
            "B-NEW-4",
            "random keys in space",
            "total = 1 - infinity.sum",
            "total = 1 - len(infinity.directions)",
            "undecided",
        ),
        (
            "B-NEW-4",
            "random keys in the plane",
            "morse_quotient([*finite, *at_infinity])",
            "[-1, 0]",
            "undecided",
        ),
    ],
    "directions/direction.py": [
        (
            "B-THM-3",
            "B-FIG-1b, token 1",
            "(min(0.5, delta) / A) ** 2 / 8",
            "375 * (min(0.5, delta) / A) ** 2",
            "undecided",
        ),
        ("B-THM-L7", "B-FIG-1b, token 1", "slope_least * least / 8", "slope_least * least * 10 / 8", "fails"),
        (
            "B-THM-L7",
            "B-FIG-8, tokens 0 and 1",
            "C=2 * slope_most * most",
            "C=0.2 * slope_most * most",
            "fails",
        ),
    ],
    f"{B}/local.py": [
        (
            "B-THM-4",
            "B-FIG-1b, best direction turned by 5 degrees",
            "float(path.angles[-1] / path.half_angle) - 0.5",
            "float(path.angles[-1] / path.half_angle) - 1.5",
            "undecided",
        )
    ],
    "dynamics/measures.py": [
        (
            "B-THM-L6",
            "random tokens, logistic",
            "return Smoothness(float(L_p), float(tight))",
            "return Smoothness(float(L_p) / 1000, float(tight) / 1000)",
            "fails",
        )
    ],
    f"{A}/first_step.py": [
        (
            "A-LEM-2",
            "no Assumption 4, d = 1024",
            "scale = errors.first_rate * power_of_width(d, -0.25)",
            "scale = errors.first_rate / d",
            "fails",
        ),
        (
            "A-LEM-11",
            "n = 6, T = 4, eta0 = 0.01",
            "bounds = 2 * (1 + 2 * rate)",
            "bounds = 0.5 * (1 + 2 * rate)",
            "fails",
        ),
    ],
    f"{A}/patterns.py": [
        (
            "A-LEM-3",
            "2 x 2 with a tie",
            "    p_hat = best.need()\n    again,",
            "    p_hat = solve(best.constraints.subset(np.flatnonzero(~best.constraints.equal))).p\n"
            "    again,",
            "undecided",
        ),
        ("A-LEM-20", "slack constraints", "= 1 + best.slack[", "= best.slack[", "fails"),
        ("A-LEM-21", "2 x 2", "bound = 4.0 * corpus.n", "bound = corpus.n / 4", "fails"),
        ("A-DEF-16", "random keys", "return mu, tight", "return -mu, tight", "undecided"),
        ("A-LEM-17", "one tie", "- tau1 * R", "- 3 * tau1 * R", "undecided"),
        ("A-ERR-5", "2 x 2", "Fraction(int(N) - 1, int(N)) - value**2", "int(N) - 1 - value**2", "fails"),
        (
            "A-LEM-19",
            "2 x 2 after the first step",
            "ratio, where = other / norm",
            "ratio, where = 1.5",
            "holds",
        ),
    ],
    "margin/closed_forms.py": [
        ("A-LEM-3P", "2 x 2", "return self.witness is None", "return self.witness is not None", "fails"),
        (
            "A-LEM-3P",
            "slack constraints: Gale fails",
            "return self.witness is None",
            "return self.witness is not None",
            "fails",
        ),
    ],
    f"{A}/gradients.py": [
        ("A-LEM-6", "slack constraints", "x = x - span.T @ (span @ x)", "pass", "not applicable"),
        (
            "A-LEM-7",
            "no Assumption 4",
            "[np.outer(by_a, p) + np.outer(by_c, v), E.T @ by_a]",
            "[2 * (np.outer(by_a, p) + np.outer(by_c, v)), 2 * E.T @ by_a]",
            "fails",
        ),
        (
            "A-LEM-10",
            "no Assumption 4",
            "1 / (1 + m[~top] * np.exp(gap))",
            "1 / (1 + 2 * m[~top] * np.exp(gap))",
            "fails",
        ),
        (
            "A-LEM-10",
            "no Assumption 4",
            "q_low - np.exp(-gap) / T[~top]",
            "q_low - 2 * np.exp(-gap) / T[~top]",
            "fails",
        ),
        ("A-LEM-9", "slack constraints, M^+ 1", "EPSILON = 1e-3 ", "EPSILON = 0.05 ", "undecided"),
        ("A-LEM-13", "slack constraints", "(c[star] - c[tokens])", "(c[tokens] - c[star])", "undecided"),
        ("A-SEC-3", "slack constraints", "abs(ratios[-1] / 2 - 1)", "abs(ratios[-1] / 4 - 1)", "undecided"),
    ],
    "embeddings/one_layer.py": [
        (
            "A-LEM-8",
            "no Assumption 4",
            "total += 0.5 * math.exp(point.log_g[k])",
            "total += math.exp(point.log_g[k])",
            "undecided",
        )
    ],
    "embeddings/first_step.py": [
        (
            "A-EVT-14",
            "S = 7, d = 256",
            "self.rho, d=d, delta=delta)",
            "self.rho, d=4 * d, delta=delta)",
            "undecided",
        ),
        (
            "A-LEM-12",
            "2 x 2",
            "0.5 * first_rate * gains - 1.0 /",
            "0.5 * first_rate * gains + 1.0 /",
            "fails",
        ),
    ],
    f"{A}/theorem5.py": [
        (
            "A-LEM-14",
            "slack constraints",
            "(1 / (2 * run.corpus.n))",
            "(1e-3 / (2 * run.corpus.n))",
            "undecided",
        ),
        (
            "A-LEM-18",
            "2 x 2",
            "1 - run.misalignment_p / ALIGNED",
            "1 - (run.misalignment_p + 0.01) / ALIGNED",
            "undecided",
        ),
        (
            "A-THM-5",
            "2 x 2",
            "if run.selects_important else -1.0",
            "if not run.selects_important else -1.0",
            "undecided",
        ),
        (
            "A-THM-5S",
            "bad basin, from inside it",
            'good start", tests.loss < tests.loss_bound,',
            'good start", True,',
            "undecided",
        ),
    ],
    f"{C}/stage1.py": [
        (
            "C-COR-1",
            "two tokens, T = 50,000",
            "(4 * sizes.star_ov * Delta)",
            "(4.000004 * sizes.star_ov * Delta)",
            "undecided",
        ),
        ("C-LEM-1", "Example 1", "judged(SHARP)", "judged(0.7072)", "fails"),
        ("C-LEM-1", "C-FIG-2", "judged(SHARP)", "judged(0.7072)", "fails"),
        ("C-LEM-2", "Example 1", "judged(0.0)", "judged(-0.001)", "fails"),
        (
            "C-LEM-3",
            "C-FIG-2",
            "table.T[np.arange(V)[None, :] != n[:, None]].reshape(V, V - 1)",
            "table.T",
            "undecided",
        ),
        (
            "C-PROP-1",
            "C-FIG-2",
            "closed = stage_1(n, t, rate)",
            "closed = stage_1(n, t, 1.000001 * rate)",
            "undecided",
        ),
        (
            "C-THM-S1",
            "Example 1",
            "closed = stage_1(n, t, rate)",
            "closed = stage_1(n, t, 1.000001 * rate)",
            "undecided",
        ),
        (
            "C-THM-S1",
            "Example 1 from a random start",
            "predicted = misalignment",
            "predicted = 1.02 * misalignment",
            "undecided",
        ),
    ],
    f"{C}/stage2.py": [
        ("C-LEM-4", "Example 1", "return margin * float(", "return float(", "undecided"),
        (
            "C-LEM-4",
            "two deciding tokens in a sentence",
            "n[data.tokens] == data.target[row]",
            "np.roll(n, 1)[data.tokens] == data.target[row]",
            "undecided",
        ),
        (
            "C-LEM-5",
            "C-FIG-2",
            "np.maximum.reduceat(others, starts)).min())",
            "np.maximum.reduceat(others, starts)).min()) - 0.1",
            "undecided",
        ),
        ("C-LEM-5", "Example 1", "return off - np.log1p", "return -off + np.log1p", "undecided"),
        ("C-LEM-6", "two tokens", "slack(SHARP)", "slack(0.7072)", "undecided"),
    ],
    f"{C}/convergence.py": [
        (
            "C-LEM-7",
            "C-FIG-2",
            "(observed.gradient_star[i] / star)) - 1",
            "(observed.gradient_star[i] / star)) * 1.02 - 1.02",
            "undecided",
        ),
        ("C-THM-1", "C-FIG-2", "gap * t / math.log(t) ** 2", "gap * t**2.05", "undecided"),
        ("C-THM-1", "Example 1", "between(SHARP)", "between(1.5)", "undecided"),
        (
            "C-THM-1",
            "a sentence too rare (formal)",
            "room(True), room(False)",
            "room(True), room(True)",
            "vacuous",
        ),
        (
            "C-THM-ASY",
            "Example 1, just above eta_c",
            "limit = late.eta_c ",
            "limit = 1.1 * late.eta_c ",
            "undecided",
        ),
        (
            "C-THM-ASY",
            "Example 1, just below eta_c",
            "limit = late.eta_c ",
            "limit = 0.9 * late.eta_c ",
            "not applicable",
        ),
    ],
    f"{C}/printed.py": [
        ("C-LEM-7", "C-FIG-2, the printed alpha", "scale = 4 * sizes.N", "scale = 4e-4 * sizes.N", "holds"),
        (
            "C-LEM-7",
            "Example 1 by flow, the printed alpha",
            "scale = 4 * sizes.N",
            "scale = 0 * sizes.N",
            "undecided",
        ),
        (
            "C-PROP-1",
            "C-FIG-2, the printed bound",
            "return constant * sizes.star_ov**3",
            "return constant / 300 * sizes.star_ov**3",
            "holds",
        ),
    ],
    f"{C}/loss.py": [
        ("C-THM-2", "C-FIG-2", "Delta * (1 - 2 * off)", "Delta * (1 - off)", "undecided"),
        ("C-THM-3", "C-FIG-2", "growth = run.rate", "growth = 1.02 * run.rate", "undecided"),
    ],
    "nexttoken/star.py": [
        (
            "C-THM-2",
            "Example 1",
            'return -expect.positive("rate", rate) /',
            'return -1.02 * expect.positive("rate", rate) /',
            "undecided",
        ),
        (
            "C-THM-ASY",
            "C-FIG-2",
            "return float(R @ R) / (2.0 *",
            "return 1.02 * float(R @ R) / (2.0 *",
            "undecided",
        ),
    ],
    f"{C}/columns.py": [
        *(
            (
                "C-THM-BLOCK",
                instance,
                ("column = kq_column(edges)", "square(kq_column(e))"),
                ("column = printed_column(edges)[1]", "square(printed_column(e)[1])"),
                "fails",
            )
            for instance in ("slack relations", "random graphs")
        ),
        (
            "C-THM-P2",
            "Example 1",
            "high, low = whole.values",
            "high, low = Block(whole.non_optimal, whole.optimal).values",
            "fails",
        ),
        (
            "C-THM-STRUCT",
            "Example 1",
            "broken_segments(samples, analysis.n)",
            "broken_segments(samples, np.argsort(analysis.n))",
            "fails",
        ),
        (
            "C-THM-STRUCT",
            "C-FIG-2",
            "most_sentences = samples.V * (samples.raw_length - 1)",
            "most_sentences = 2 * samples.V",
            "fails",
        ),
    ],
    f"{D}/norms.py": [
        (
            "D-CONJ-0",
            "triple, l3",
            "best = separable(problem, norm, selection)",
            'best = separable(problem, "l1.5", selection)',
            "undecided",
        ),
        (
            "D-THM-4",
            "plane",
            "norm=norm).written for norm in norms",
            'norm="l2").written for norm in norms',
            "undecided",
        ),
        ("D-CONJ-1", "w22, Muon", '"muon": "spectral"', '"muon": "nuclear"', "undecided"),
        ("D-CONJ-2", "w22", "return lower if", "return 2 * lower if", "undecided"),
        (
            "D-THM-1",
            "w33",
            "U[:, :rank] * root[:rank], Vt",
            "1.01 * U[:, :rank] * root[:rank], Vt",
            "undecided",
        ),
    ],
    f"{D}/steps.py": [
        (
            "D-THM-3",
            "triple, l2, rate 3",
            "high - low, float(y @",
            "high - low, 1.001 * float(y @",
            "undecided",
        ),
        (
            "D-THM-5",
            "triple, l3",
            "eta = hm.limits.critical_rate(best)",
            "eta = 1.05 * hm.limits.critical_rate(best)",
            "undecided",
        ),
        (
            "D-THM-5",
            "triple, l1.5",
            "eta = hm.limits.critical_rate(best)",
            "eta = 0.95 * hm.limits.critical_rate(best)",
            "undecided",
        ),
        (
            "D-THM-6",
            "triple, sign descent, rate 0.1",
            "sum(axis=0)]  # over the rate",
            "sum(axis=0)]\n    mean[2] = -mean[2]",
            "undecided",
        ),
        ("D-THM-10", "skew, l2", "[ball.step(keys[t]", "[-ball.step(keys[t]", "undecided"),
    ],
    f"{D}/adam.py": [
        (
            "D-CONJ-3",
            "skew",
            'run_margin(problem, run, "l2", positive)',
            'run_margin(problem, run, "linf", positive)',
            "undecided",
        ),
        (
            "D-THM-7",
            "skew, l2",
            "threshold = hm.limits.freezing_rate",
            "threshold = 0.5 * hm.limits.freezing_rate",
            "undecided",
        ),
        (
            "D-THM-7",
            "space-b, linf: Signum",
            "threshold = hm.limits.freezing_rate",
            "threshold = 3 * hm.limits.freezing_rate",
            "undecided",
        ),
        (
            "D-THM-9",
            "skew",
            "law = hm.limits.adam_growth(rate,",
            "law = hm.limits.adam_growth(1.05 * rate,",
            "undecided",
        ),
        (
            "D-THM-9b",
            "skew",
            "limit = hm.limits.runaway_rate",
            "limit = 0.97 * hm.limits.runaway_rate",
            "undecided",
        ),
        (
            "D-THM-9b",
            "skew",
            "limit = hm.limits.runaway_rate",
            "limit = 1.03 * hm.limits.runaway_rate",
            "undecided",
        ),
    ],
    f"{D}/split.py": [
        (
            "D-CONJ-4",
            "two-scc, linf",
            "hm.optim.GD(longest**-2.0, norm=norm)",
            "hm.optim.Sign(0.1)",
            "undecided",
        ),
        (
            "D-CONJ-5",
            "opposed inputs and a third one",
            "gradient(survivors, run.p)",
            "gradient(survivors, 1.1 * run.p)",
            "undecided",
        ),
        (
            "D-THM-8",
            "cycle",
            "float(np.linalg.norm(np.asarray(split.p_mm))) * math.log(ratio)",
            "1.3 * float(np.linalg.norm(np.asarray(split.p_mm))) * math.log(ratio)",
            "undecided",
        ),
        (
            "D-THM-12",
            "plane-plus",
            "float(np.linalg.norm(np.asarray(split.p_mm))) * math.log(ratio)",
            "0.9 * float(np.linalg.norm(np.asarray(split.p_mm))) * math.log(ratio)",
            "undecided",
        ),
        (
            "D-THM-11",
            "dependent",
            "[bool(row) for row in split.partition.bound]",
            "[not row for row in split.partition.bound]",
            "undecided",
        ),
        (
            "D-THM-11",
            "dependent",
            "else bool(-solution.fun > 0.5)",
            "else bool(-solution.fun < 0.5)",
            "undecided",
        ),
    ],
    "margin/norms/factored.py": [
        (
            "D-THM-2",
            "w33, rank 1: not optimal",
            "return (rows.left().T * weights)",
            "return 0.1 * (rows.left().T * weights)",
            "undecided",
        ),
        (
            "D-THM-2",
            "w33, rank 2: optimal",
            "return (rows.left().T * weights)",
            "return 1.1 * (rows.left().T * weights)",
            "undecided",
        ),
    ],
    f"{D}/classes.py": [
        (
            "D-THM-13",
            "corners, linf",
            "hm.margin.norm(norm).dual.value(pull)",
            "hm.margin.norm(norm).value(pull)",
            "undecided",
        ),
        ("D-THM-13", "corners, l2", "float(off_label.sum())", "2 * float(off_label.sum())", "undecided"),
        ("D-THM-13", "corners, l1", "float((rows @ p).min())", "float((rows @ p).max())", "undecided"),
        ("D-THM-14", "three to one", "math.log(counts[first] / counts[other])", "counts[first]", "undecided"),
        ("D-THM-14", "three to one", "total -= sum(count", "total += sum(count", "undecided"),
        ("D-THM-15", "three to one", "np.vstack([tight,", "np.vstack([-tight,", "undecided"),
    ],
}


def statement_mutations() -> Iterator[Mutation]:
    """The rows of ``STATEMENTS``."""
    for file, rows in STATEMENTS.items():
        for id, instance, right, wrong, verdict in rows:
            texts = [(each,) if isinstance(each, str) else each for each in (right, wrong)]
            name = f"{id}, {instance}: {texts[1][0].strip()}"
            yield Mutation(name, file, dict(zip(*texts, strict=True)), (), id, instance, verdict)


MISTAKES = list(statement_mutations())


def source(mutation: Mutation) -> Path:
    return ROOT / "src" / "hardmax" / mutation.file


@contextmanager
def planted(mutation: Mutation) -> Iterator[None]:
    """The package with a mistake in memory: functions get other code, constants of modules other values."""
    module = import_module("hardmax." + mutation.file.removesuffix(".py").replace("/", "."))
    text = mutation.mutate(source(mutation).read_text())
    wrong = {"__name__": module.__name__, "__file__": module.__file__, "__package__": module.__package__}
    entered = [dict(table.entered) for table in (REGISTRY, PRINTED, RECIPES)]
    exec(compile(text, str(module.__file__), "exec"), wrong)
    REGISTRY.entered, PRINTED.entered, RECIPES.entered = entered
    before: list[tuple[Any, str, Any]] = []

    def change(thing: Any, name: str, value: Any) -> None:
        before.append((thing, name, getattr(thing, name)))
        setattr(thing, name, value)

    for old, new in _functions(vars(module), wrong):
        if old.__code__ != new.__code__:
            change(old, "__code__", new.__code__)
    for name, value in wrong.items():
        old = getattr(module, name, None)
        if isinstance(value, int | float | str | dict | tuple) and not name.startswith("__") and value != old:
            for user in [each for path, each in sys.modules.items() if path.startswith("hardmax")]:
                if vars(user).get(name) is old:
                    change(user, name, value)
    assert before, "the mistake changes nothing"
    try:
        yield
    finally:
        for thing, name, value in reversed(before):
            setattr(thing, name, value)


def _functions(right: dict[str, Any], wrong: dict[str, Any]) -> Iterator[tuple[FunctionType, FunctionType]]:
    """Functions, methods and properties of one module on both sides, without their wrappers."""
    for name in wrong:
        old, new = (_bare(side.get(name)) for side in (right, wrong))
        if getattr(new, "__module__", None) != wrong["__name__"]:
            continue
        if inspect.isclass(new):
            yield from _functions(dict(vars(old)), {**vars(new), "__name__": wrong["__name__"]})
        elif isinstance(old, FunctionType) and isinstance(new, FunctionType):
            yield old, new


def _bare(thing: Any) -> Any:
    """The function below a property or a decorator."""
    thing = getattr(thing, "fget", None) or getattr(thing, "func", None) or thing
    return inspect.unwrap(thing) if callable(thing) else thing


def run(mutation: Mutation) -> tuple[str, Check]:
    """The verdict that is expected of the statement, and its check with the mistake in place."""
    (instance,) = (each for each in instances([mutation.id]) if each.name == mutation.instance)
    with planted(mutation):
        return str(instance.expected), instance.run()


@pytest.mark.no_cover
@pytest.mark.parametrize("mutation", MISTAKES, ids=lambda mutation: mutation.name)
def test_the_statement_notices(mutation: Mutation) -> None:
    expected, found = run(mutation)
    assert found.verdict != expected
    assert found.verdict == mutation.verdict, found
    if found.verdict == "fails" and found.label != "measured":
        assert found.proof, found


def test_every_statement_has_a_mutation() -> None:
    assert {each.id for each in MISTAKES} == {id for id in statements() if id in REGISTRY.places}


@pytest.mark.parametrize("mutation", TESTS, ids=lambda mutation: mutation.name)
def test_the_mistake_can_still_be_made(mutation: Mutation) -> None:
    compile(mutation.mutate(source(mutation).read_text()), mutation.file, "exec")
    assert [name for name in mutation.tests if not (ROOT / name.partition("::")[0]).exists()] == []


def failures(tree: Path, tests: tuple[str, ...], kernels: Path) -> tuple[list[str], str]:
    """The tests that fail in a tree, and pytest's own summary."""
    environment = os.environ | {
        "NUMBA_CACHE_DIR": str(kernels),
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": str(tree / "src"),
    }
    options = ["-q", "--tb=no", "-rfE", "-p", "no:cacheprovider", "--hypothesis-profile=mutations"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=tree,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        check=False,
    )
    if done.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise RuntimeError(f"pytest did not run:\n{done.stdout}")
    failed = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, flags=re.MULTILINE)
    return failed, done.stdout.splitlines()[-1].strip("= ")


def _told(mutation: Mutation) -> tuple[bool, str]:
    """Whether a statement notices a mistake, and a line about it."""
    expected, found = run(mutation)
    return found.verdict != expected, f"{mutation.name} ({mutation.file}): {expected} -> {found.verdict}"


def main() -> int:
    """Make each mistake alone and print what notices it; exit code 1 if one goes unnoticed."""
    unnoticed = 0
    with ProcessPoolExecutor(2) as pool:
        for noticed, line in pool.map(_told, MISTAKES):
            unnoticed += not noticed
            print(line, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".*", "__pycache__", "build", "results"))
        for mutation in TESTS:
            path = tree / "src" / "hardmax" / mutation.file
            right = path.read_text()
            path.write_text(mutation.mutate(right))
            # A kernel is cached by the date of its own file, not of those it calls.
            kernels = Path(folder) / (path.stem if "njit" in right else "kernels")
            failed, summary = failures(tree, mutation.tests, kernels)
            path.write_text(right)
            unnoticed += not failed
            print(f"{mutation.name} ({mutation.file}): {summary}", *failed, sep="\n    ", flush=True)
    print(f"{len(MISTAKES) + len(TESTS)} mistakes, {unnoticed} unnoticed")
    return int(unnoticed > 0)


if __name__ == "__main__":
    sys.exit(main())
