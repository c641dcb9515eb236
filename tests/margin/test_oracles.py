"""The oracles of the three papers that concern the hard-margin core."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hardmax.margin.closed_forms import important_only, kq_column, kq_star, ov_star, pattern, star_column
from hardmax.margin.constraints import Constraints
from hardmax.margin.label_svm import label_svm, rho_svm
from hardmax.margin.solve import solve

from .conftest import dot, fractions


def differences(K: list[np.ndarray], alpha: list[int]) -> Constraints:
    """ATT-SVM rows of a selection."""
    table = np.vstack(K)
    first = np.cumsum([0, *(len(k) for k in K)])
    labels = [(i, t) for i, k in enumerate(K) for t in range(len(k)) if t != alpha[i]]
    plus = [int(first[i]) + alpha[i] for i, _ in labels]
    return Constraints.pairs(table, plus, [int(first[i]) + t for i, t in labels], labels=labels)


@pytest.mark.parametrize(
    "case",
    [
        "fig1a",
        "fig1b",
        "fig8",
        "infeasible_opposed",
        "infeasible_duplicate_key",
        "fig1c",
        "random_n3T3d2",
        "random_n3T3d3",
    ],
)
def test_att_svm(paper_b: dict[str, Any], case: str) -> None:
    """Every selection: feasible exactly where the oracle says so, with its p and its neighbors."""
    data = paper_b["att_svm"][case]
    K = [np.array(k, dtype=float) for k in data["K"]]
    known = {tuple(s["alpha"]): s for s in data["feasible_selections"]}
    for alpha in np.ndindex(*(len(k) for k in K)):
        best = solve(differences(K, list(alpha)))
        assert best.status == ("certified" if alpha in known else "infeasible"), alpha
        if alpha in known:
            assert best.p == pytest.approx(known[alpha]["p"], abs=1e-8)
            assert sorted(best.support) == sorted(map(tuple, known[alpha]["neighbours"]))
    assert len(known) == data["n_feasible"]


def test_exact_values_of_figure_1_and_8(paper_b: dict[str, Any]) -> None:
    data = paper_b["att_svm"]
    ten = [
        10 * np.array(k, dtype=float) for k in data["fig1a"]["K"]
    ]  # integers, so p is 1/10 of the oracle's
    exact = solve(differences(ten, [0]), exact=True).exact
    assert exact.p == (Fraction(-1, 101), Fraction(10, 101))
    assert exact.norm_squared * 100 == Fraction(100, 101)
    fig8 = [np.array(k, dtype=float) for k in data["fig8"]["K"]]
    assert solve(differences(fig8, [0, 0]), exact=True).exact.p == (1, 3)


@pytest.mark.parametrize("part", ["a", "b"])
def test_fig3_svms(paper_b: dict[str, Any], part: str) -> None:
    data = paper_b["fig3_svms"][part]
    X, Y, alpha = np.array(data["X"], dtype=float), data["Y"], data["alpha"]
    chosen = X[np.arange(3), alpha]
    label = label_svm(chosen, Y)
    assert label.p == pytest.approx(data["v_mm"], abs=1e-9)
    S = [i for (i,) in label.support]
    assert data["support"] == S
    rows = [chosen[i] - np.delete(X[i], alpha[i], axis=0) for i in range(3)]
    assert solve(differences(list(X), alpha)).p == pytest.approx(data["p_mm"], abs=1e-9)
    nu = np.array(Y) * (chosen @ label.p) - 1
    relaxed = rho_svm(rows, nu, S, label.margin, rho=np.inf).solution
    assert relaxed.p == pytest.approx(data["p_relax"], abs=1e-9)
    if part == "b":
        for known in data["rho_interpolated_limit_angle_deg"]:
            got = rho_svm(rows, nu, S, label.margin, known["rho"])
            angle = np.degrees(np.arctan2(got.direction[1], got.direction[0]))
            assert angle == pytest.approx(known["angle_deg"], abs=1e-11)
            assert got.rho_star == pytest.approx(1.0, abs=1e-14)


def test_rho_zero_is_the_plain_problem() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        q = rng.normal(size=4)
        rows = [r * np.sign(r @ q)[:, None] for r in rng.normal(size=(5, 3, 4))]
        nu = np.array([0, 0, *rng.uniform(0.1, 2, size=3)])
        plain = solve(Constraints.dense(np.vstack(rows)))
        assert rho_svm(rows, nu, {0, 1}, 0.7, 0.0).margin == pytest.approx(plain.margin, rel=1e-12)
        margins = [rho_svm(rows, nu, {0, 1}, 0.7, rho) for rho in (0.0, 0.1, 0.3, 1.0, 10.0)]
        assert all(x.margin <= y.margin * (1 + 1e-12) for x, y in itertools.pairwise(margins))
        for rho, got in zip((0.0, 0.1, 0.3, 1.0, 10.0), margins, strict=True):
            need = np.where(nu[:, None] > 0, np.maximum(0, got.margin - rho * 0.7 * nu[:, None]), got.margin)
            assert (np.array(rows) @ got.direction - need).min() >= -1e-12


def test_pattern_problems(paper_a: dict[str, Any]) -> None:
    for case in paper_a["maxmargin"]:
        E = fractions(case["E"])
        scale = 60 if case["id"].endswith("5e") else 1  # makes the embeddings integers
        table = np.array([[float(x * scale) for x in row] for row in E])
        c = pattern(case["sequences"], case["selection"], table)
        assert sorted(c.labels[j] for j in range(c.count) if not c.equal[j]) == sorted(
            map(tuple, case["inequalities"])
        )
        exact = solve(c, exact=True)
        assert [x * scale for x in exact.exact.p] == [Fraction(x) for x in case["phat"]], case["id"]
        assert exact.exact.norm_squared * scale**2 == Fraction(case["norm_sq"])
        margins = dict(zip(map(tuple, case["inequalities"]), case["margins"], strict=True))
        tight = {label for label, value in margins.items() if Fraction(value) == 1}
        assert set(exact.support) == tight
        best = solve(c)
        assert best.is_certified
        assert best.p_norm == pytest.approx(exact.p_norm, rel=1e-12)
        assert set(best.support) == tight
        gram = np.array([[float(dot(x, y) * scale**2) for y in E] for x in E])
        inner = solve(pattern(case["sequences"], case["selection"], gram=gram), exact=True)
        assert inner.exact.norm_squared == exact.exact.norm_squared
        assert set(inner.support) == tight
        floats = solve(pattern(case["sequences"], case["selection"], gram=gram))
        assert floats.p_norm == pytest.approx(exact.p_norm, rel=1e-9)
        p = sum(w * row for w, row in zip(floats.coefficients, c.rows(), strict=True))
        assert p == pytest.approx(exact.p, abs=1e-9)


def test_bad_basin(paper_a: dict[str, Any]) -> None:
    data = paper_a["bad_basin"]
    E = np.array([[float(Fraction(x)) for x in row] for row in data["E"]])
    for chosen, name in (([[2], [1]], "bad"), ([[0], [1]], "good")):
        best = solve(pattern(data["sequences"], chosen, E), exact=True)
        assert [Fraction(x) for x in data[f"phat_{name}"]] == list(best.exact.p)
        assert best.exact.norm_squared == Fraction(data[f"norm_sq_{name}"])
        if name == "bad":
            margins = {str(c): s + 1 for c, s in zip(best.constraints.labels, best.exact.slack, strict=True)}
            assert margins == {k: Fraction(v) for k, v in data["margins_bad"].items()}


def test_important_only_closed_form(paper_a: dict[str, Any]) -> None:
    for case in paper_a["maxmargin"]:
        if case["id"][-1] in "ac":
            form = important_only(case["sequences"], [s[0] for s in case["selection"]])
            tokens = len(case["E"])
            assert [float(form.coefficients[s]) for s in range(tokens)] == pytest.approx(
                case["pinv_solution_Mdagger1"][:tokens], abs=1e-12
            )
            assert float(form.norm_squared) == pytest.approx(case["pinv_norm_sq"], rel=1e-12)
            assert form.is_max_margin is case["pinv_is_optimal"]


def test_gale_condition_against_the_solver() -> None:
    """A-LEM-3P: M^+ 1 solves the problem with orthonormal tokens exactly where the condition holds."""
    rng = np.random.default_rng(1)
    outcomes = set()
    for _ in range(150):
        tops = int(rng.integers(2, 5))
        sequences = [[s, *rng.integers(tops, tops + 5, size=3).tolist()] for s in range(tops)]
        form = important_only(sequences, list(range(tops)))
        best = solve(pattern(sequences, [[s] for s in range(tops)], np.eye(tops + 5)), exact=True)
        assert (best.exact.norm_squared == form.norm_squared) is form.is_max_margin
        outcomes.add(form.is_max_margin)
    assert outcomes == {True, False}


def test_next_token_example(paper_c: dict[str, Any]) -> None:
    data = paper_c["C-ORC-1_example1"]
    at = {token: i for i, token in enumerate(data["vocabulary"])}
    W_ov = ov_star([at[data["collocation"][t]] for t in data["vocabulary"]]).fractions
    assert sum(x * x for x in W_ov.ravel()) == Fraction(data["W_ov_star_norm2"])
    edges = {at[q]: [(at[r[0]], at[r[2]]) for r in rels] for q, rels in data["orders"].items()}
    W_kq = kq_star(edges, 4).fractions
    assert W_kq.tolist() == fractions(data["W_kq_star_rows_token_cols_query"])
    assert sum(x * x for x in W_kq.ravel()) == Fraction(data["W_kq_star_norm2"])
    assert star_column(2, [0, 1]) == {t: W_kq[t, 2] for t in (0, 1, 2)}
    # The same two problems as outer-product constraints, by the general solver.
    identity = np.eye(4)
    ov = [
        (at[data["collocation"][x]], v, at[x])
        for x in at
        for v in range(4)
        if v != at[data["collocation"][x]]
    ]
    kq = [(o, x, q) for q, pairs in edges.items() for o, x in pairs]
    for triples, truth in ((ov, W_ov), (kq, W_kq)):
        plus, minus, query = (list(column) for column in zip(*triples, strict=True))
        c = Constraints.pairs(identity, plus, minus, right=identity, right_of=query)
        assert np.allclose(c.gram(), c.rows() @ c.rows().T, atol=1e-15)
        assert pytest.approx(truth.astype(float), abs=1e-12) == solve(c).W
        assert list(solve(c, exact=True).exact.p) == truth.ravel().tolist()


def test_c_orc_5(paper_c: dict[str, Any]) -> None:
    data = paper_c["C-ORC-5_slack_edge_noninjective"]
    columns = {q: kq_column([tuple(r.split(">")) for r in rels]) for q, rels in data["orders"].items()}
    assert columns["q"] == {t: Fraction(v) for t, v in data["true_W_kq_star_column_q"].items()}
    assert sum(w * w for column in columns.values() for w in column.values()) == Fraction(data["true_norm2"])


def test_c_orc_6(paper_c: dict[str, Any]) -> None:
    for name, case in paper_c["C-ORC-6_bipartite_min_norm"]["cases"].items():
        edges = [tuple(e.split("-")) for e in case["edges"]]
        column = kq_column(edges)
        assert column == {t: Fraction(v) for t, v in case["solution"].items()}, name
        assert sum(w * w for w in column.values()) == Fraction(case["norm2"])


def test_blocks_against_the_rational_solver() -> None:
    rng = np.random.default_rng(2)
    for _ in range(150):
        k, m = int(rng.integers(1, 6)), int(rng.integers(1, 7))
        joined = rng.random((k, m)) < 0.5
        edges = [(o, k + x) for o in range(k) for x in range(m) if joined[o, x]]
        if not edges:
            continue
        plus, minus = (list(column) for column in zip(*edges, strict=True))
        p = solve(Constraints.pairs(np.eye(k + m), plus, minus), exact=True).exact.p
        column = kq_column(edges)
        assert [column.get(t, Fraction(0)) for t in range(k + m)] == list(p)
