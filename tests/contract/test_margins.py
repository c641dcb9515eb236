"""Max margins: every norm against oracles and KKT conditions, exact arithmetic, lists, certificates."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

from . import formulas as f
from . import names as n

# Part D's oracle "triple", selection (0, 0, 0): margins to 14 digits, two of them exact.
MARGINS = {
    "l1": 11 / 35,
    "l1.5": 0.44507786182924,
    "l2": 0.52522573143889,
    "l3": 0.61073391154395,
    "linf": 44 / 63,
}
# Part D's oracle "w22", selection (2, 0).
TOKENS = [[[1.0, 1.0], [0.0, -1.0], [-2.0, -0.5]], [[-0.5, -2.0], [-2.0, 2.0], [0.5, -1.0]]]
QUERIES, SCORES = [[-0.5, 2.0], [1.5, 1.5]], [[1.0, 0.0, 2.0], [2.0, 0.0, 1.0]]
OF_MATRICES = {"l2": 2.70828101457, "nuclear": 2.34660259183, "spectral": 3.0}


@pytest.mark.parametrize("norm", MARGINS)
def test_margins_of_the_oracle(norm):
    problem = n.example("triple")
    best = n.max_margin(problem, [0, 0, 0], norm=norm)
    assert best.status == "certified"
    assert best.margin == pytest.approx(MARGINS[norm], rel=1e-12)
    lower, upper = best.margin_interval
    assert lower <= MARGINS[norm] * (1 + 1e-13)
    assert MARGINS[norm] * (1 - 1e-13) <= upper <= lower * (1 + 1e-8)
    keys = problem.keys.reshape(3, 2, 3)
    assert (f.rows(keys, [0, 0, 0]) @ best.p).min() == pytest.approx(1.0, rel=1e-9)  # |p| = 1/margin
    assert f.length(best.p, norm) == pytest.approx(1 / MARGINS[norm], rel=1e-9)


@pytest.mark.parametrize("norm", OF_MATRICES)
def test_margins_of_matrices(norm):
    best = n.max_margin(n.problem_from_queries(TOKENS, QUERIES, SCORES), [2, 0], norm=norm)
    assert best.margin == pytest.approx(OF_MATRICES[norm], rel=1e-9)
    products = [
        x[c] @ best.W @ q - np.delete(x, c, 0) @ best.W @ q
        for x, c, q in zip(map(np.array, TOKENS), [2, 0], QUERIES, strict=True)
    ]
    assert np.concatenate(products).min() == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("norm", ["l1", "l1.5", "l2", "l4", "linf"])
def test_random_margins_fulfil_their_conditions(norm):
    """p is feasible, and multipliers y >= 0 with |D'y|* = margin sum y prove that no shorter p is."""
    decided = 0
    for seed in range(12):
        keys, scores = f.draw(3, 3, 4, seed)
        best = n.max_margin(n.problem(keys, scores), np.argmax(scores, axis=1), norm=norm)
        rows = f.rows(keys, np.argmax(scores, axis=1))
        if not best.is_feasible:
            assert f.close(best.farkas @ rows, np.zeros(4), atol=1e-9)
            assert min(best.farkas) >= 0 < max(best.farkas)
            continue
        decided += 1
        assert best.is_certified
        assert (rows @ best.p).min() * best.margin == pytest.approx(best.margin, rel=1e-9)
        y = np.array(best.multipliers, dtype=float)
        assert y.min() >= 0
        assert f.length(y @ rows, f.dual(norm)) == pytest.approx(best.margin * y.sum(), rel=1e-6)
    assert decided >= 3


def test_exact_arithmetic():
    problem = n.example("B-FIG-8")
    best = n.max_margin(problem, [0, 0], exact=True)
    assert n.arithmetic(best) == "exact"
    assert [*n.exact_p(best)] == [Fraction(1), Fraction(3)]
    assert best.exact.norm_squared == Fraction(10)
    assert best.support == ((0, 1), (1, 1))
    assert n.p_length(best) == pytest.approx(math.sqrt(10.0))
    assert n.kkt_residual(n.max_margin(problem, [0, 0])) < 1e-12


def test_a_contradiction_is_proved():
    best = n.max_margin(n.constraints([[1.0], [-1.0]]))
    assert (best.status, best.p) == ("infeasible", None)
    assert f.close(best.farkas, [0.5, 0.5]) or f.close(best.farkas, [1.0, 1.0])
    assert n.certify(best.to_dict()).valid


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_lists_of_problems(norm):
    problems = n.random_trials(10, 20)
    chosen = [tuple(int(np.argmax(each)) for each in p.scores.reshape(4, 6)) for p in problems]
    together = n.max_margin_list(problems, chosen, norm=norm)
    for best, problem, selection in zip(together, problems, chosen, strict=True):
        alone = n.max_margin(problem, selection, norm=norm)
        assert best.is_feasible == alone.is_feasible
        if best.is_feasible:
            assert best.margin == pytest.approx(alone.margin, rel=1e-10)


@pytest.mark.parametrize("norm", ["l1", "l1.5", "l2", "linf", "nuclear", "spectral"])
def test_certificates(norm, tmp_path):
    problem = n.problem_from_queries(TOKENS, QUERIES, SCORES)
    n.max_margin(problem, [2, 0], norm=norm).save(tmp_path / "proof.json")
    assert n.certify(tmp_path / "proof.json").valid
    told = json.loads((tmp_path / "proof.json").read_text())
    assert not n.certify({**told, "margin_interval": [2 * x for x in told["margin_interval"]]}).valid


def test_forged_certificates_are_refused():
    proof = n.max_margin(n.example("B-FIG-8"), [0, 0], exact=True).to_dict()
    assert n.certify(proof).valid
    assert not n.certify({**proof, "p": ["1", "2"]}).valid
    assert not n.certify({**proof, "digest": ""}).valid


def test_best_scoring_selections():
    problem = n.problem([[[1.0], [-1.0], [0.0]], [[2.0], [0.0], [1.0]]], [[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    found = dict(n.best_max_margins(problem))
    assert set(found) == {(0, 0), (1, 0)}
    assert found[0, 0].margin == pytest.approx(1.0)
    assert found[1, 0].status == "infeasible"


def test_the_best_of_sets():
    problem = n.problem([[[1.0], [-1.0], [0.0]]], [[1.0, 1.0, 0.0]])
    assert sorted(p.tolist() for p in n.set_max_margin(problem).minimizers) == [[-1.0], [1.0]]
    keys = [
        [[0.19, -0.52], [-0.41, -2.44], [1.8, 1.14], [-0.33, 0.77]],
        [[0.28, -0.55], [0.98, -0.31], [-0.33, -0.79], [0.45, -0.1]],
    ]
    found = n.set_max_margin(n.problem(keys, [[1, 1, 0, 0]] * 2))
    assert f.close(found.minimizers[0], [1.4270590726233354, -1.1602794833792096])  # paper B's oracle


def test_factors_at_a_stationary_point():
    tokens = [[[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]]
    problem = n.problem_from_queries(tokens, np.eye(2), [[1.0, 0.0], [1.0, 0.0]])
    found = n.factored_point(problem, np.eye(2), np.eye(2))  # W = I has nuclear norm 2: margin 1/2
    assert found.status == "optimal"
    assert np.allclose(found.interval, 0.5)
    assert n.factored_point(problem, np.eye(2), [[1.0, 1.0], [0.0, 1.0]]).status == "not stationary"


def test_constraints_without_a_problem():
    best = n.max_margin(n.constraints([[1.0, 1.0], [1.0, -1.0], [0.5, 1.0]]))
    assert f.close(best.p, [4 / 3, 1 / 3])
    equal = n.max_margin(n.constraints([[2.0, 1.0]], E=[[0.0, 1.0]]))
    assert f.close(equal.p, [0.5, 0.0])
    pairs = n.constraint_pairs([[1.0], [3.0]], plus=[1, 0], minus=[0, -1])
    assert pairs.rows().tolist() == [[2.0], [1.0]]
    assert n.constraints_from_gram(np.eye(2), plus=[0], minus=[1]).gram().tolist() == [[2.0]]
    entries = n.constraints_between_entries((3,), plus=[0, 0], minus=[1, 2])
    assert entries.rows().tolist() == [[1.0, -1.0, 0.0], [1.0, 0.0, -1.0]]
    assert n.max_margin(entries).margin == pytest.approx(math.sqrt(1.5))


def test_norms():
    x = np.array([3.0, -4.0, 1.0])
    for name in ("l1", "l1.5", "l2", "l3", "linf"):
        norm = n.norm(name)
        assert norm.value(x) == pytest.approx(f.length(x, name))
        assert norm.dual.value(x) == pytest.approx(f.length(x, f.dual(name)))
        assert f.close(norm.step(x), f.steepest(x, name))
    assert n.norm("nuclear").value([[0.0, 3.0], [4.0, 0.0]]) == pytest.approx(7.0)
    assert n.norm("spectral").value([[0.0, 3.0], [4.0, 0.0]]) == pytest.approx(4.0)


def test_faces_of_polyhedral_norms():
    face = n.max_margin(n.constraints([[1.0, 1.0]]), norm="l1").face
    assert (face.dim, face.unique) == (1, False)
    assert sorted([*map(float, vertex)] for vertex in face.vertices) == [[0.0, 1.0], [1.0, 0.0]]
    assert face.distance([1.0, -1.0]) == pytest.approx(math.sqrt(0.5))
