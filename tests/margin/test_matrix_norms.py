"""Nuclear and spectral margins of a matrix: duality, KKT, the shortest optimum, equalities, certificates."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

import numpy as np
import pytest

import hardmax as hm
from hardmax.margin.certificates import semidefinite
from hardmax.margin.norms import norm

BOTH = ("nuclear", "spectral")


def outer(a: Any, b: Any, h: Any = 1.0, equal: Any = False) -> hm.Constraints:
    """Rows a_j b_j'."""
    every = np.arange(len(a))
    bounds = np.broadcast_to(np.asarray(h, dtype=float), every.shape)
    return hm.Constraints.pairs(a, every, np.full(len(a), -1), bounds, equal, right=b, right_of=every)


def random_rows(rng: np.random.Generator, m: int, d: int, e: int) -> hm.Constraints:
    a, b = rng.standard_normal((m, d)), rng.standard_normal((m, e))
    signs = np.sign(np.einsum("jk,kl,jl->j", a, rng.standard_normal((d, e)), b))
    return outer(a * signs[:, None], b)


def test_strong_duality_on_random_rows() -> None:
    """500 rows per norm, 50 problems: both ends of the interval by their definition; some are infeasible."""
    rng = np.random.default_rng(0)
    statuses = []
    for trial in range(50):
        d, e = rng.integers(2, 5, size=2)
        rows = random_rows(rng, 10, d, e)
        if trial % 4 == 0:
            rows = outer(rng.standard_normal((10, 1)), rng.standard_normal((10, 2)))
        found = [hm.max_margin(rows, norm=name) for name in (*BOTH, "l2")]
        statuses.append({best.status for best in found})
        if not found[0].is_certified:
            continue
        nuclear, spectral, frobenius = (best.margin_interval for best in found)
        assert nuclear[0] <= frobenius[1]
        assert frobenius[0] <= spectral[1]
        for best in found[:2]:
            lower, upper = best.margin_interval
            assert upper - lower <= 1e-9 * upper
            u = (best.multipliers @ rows.rows()).reshape(rows.shape)
            ball = norm(best.norm)
            assert ball.dual.value(u) / best.multipliers.sum() == pytest.approx(best.margin, rel=1e-11)
            assert ball.value(best.p.reshape(rows.shape)) == pytest.approx(best.p_norm, rel=1e-12)
    assert all(len(each) == 1 for each in statuses)
    assert statuses.count({"infeasible"}) > 5


def test_kkt_of_the_corrections() -> None:
    """Nuclear: W = U S V' with S semidefinite of trace 1. Spectral: U V', and a free part of norm <= 1."""
    rng = np.random.default_rng(3)
    for _ in range(5):
        rows = random_rows(rng, 8, 4, 3)
        for name in BOTH:
            best = hm.max_margin(rows, norm=name)
            W = best.p.reshape(rows.shape) * best.margin
            M = (best.multipliers @ rows.rows()).reshape(rows.shape) * best.margin
            U, values, Vt = np.linalg.svd(M)
            if name == "nuclear":
                r = int((values > 1 - 1e-9).sum())
                S = U[:, :r].T @ W @ Vt[:r].T
                assert U[:, :r] @ S @ Vt[:r] == pytest.approx(W, abs=1e-9)
                assert pytest.approx(S.T, abs=1e-9) == S
                assert np.trace(S) == pytest.approx(1, abs=1e-12)
                assert np.linalg.eigvalsh(S)[0] > -1e-9
                continue
            r = int((values > 1e-9).sum())
            Z = U[:, r:].T @ W @ Vt[r:].T
            assert U[:, :r] @ Vt[:r] + U[:, r:] @ Z @ Vt[r:] == pytest.approx(W, abs=1e-9)
            assert np.linalg.norm(Z, 2) <= 1 + 1e-12 if Z.size else True


E3 = np.eye(3)


@pytest.mark.parametrize(
    ("name", "a", "b", "h", "W"),
    [
        # unit diagonals: any correlation matrix is optimal; the fourth row holds one entry at 0.3
        (
            "nuclear",
            E3[[0, 1, 2, 0]],
            E3[[0, 1, 2, 1]],
            [1, 1, 1, 0.3],
            [[1, 0.3, 0], [0.3, 1, 0], [0, 0, 1]],
        ),
        # here a corner of the cone holds the entry that no row asks for: 0.9^2 - (1 - 0.9^2) = 0.62
        (
            "nuclear",
            E3[[0, 1, 2, 0, 1]],
            E3[[0, 1, 2, 1, 2]],
            [1, 1, 1, 0.9, 0.9],
            [[1, 0.9, 0.62], [0.9, 1, 0.9], [0.62, 0.9, 1]],
        ),
        # only the first entry counts; the free part is what a row asks of it, and otherwise zero
        ("spectral", E3[[0, 1]], E3[[0, 1]], [1, 0.4], [[1, 0, 0], [0, 0.4, 0], [0, 0, 0]]),
        ("spectral", E3[:1], E3[:1], [1], [[1, 0, 0], [0, 0, 0], [0, 0, 0]]),
    ],
)
def test_of_several_optima_the_shortest(name: str, a: Any, b: Any, h: Any, W: Any) -> None:
    best = hm.max_margin(outer(a, b, h), norm=name)
    assert best.is_certified
    assert best.unique is None
    assert best.p.reshape(3, 3) == pytest.approx(np.array(W), abs=1e-7)
    assert best.margin_gap(W) == pytest.approx(0, abs=1e-9)
    assert best.margin_gap(-np.ones((3, 3))) > 1


@pytest.mark.parametrize("name", [*BOTH, "l1", "l1.5", "l3", "linf"])
def test_equalities(name: str) -> None:
    """E p = 0: the upper end is N*(D'y + E'nu). E p = h: the least norm and its interval; no p is scaled."""
    rng = np.random.default_rng(4)
    ball = norm(name)
    for right in (0.0, 0.5):
        W = rng.standard_normal((3, 2))
        a, b = rng.standard_normal((6, 3)), rng.standard_normal((6, 2))
        reach = np.einsum("jk,kl,jl->j", a, W, b)
        tied = np.arange(6) == 5
        a = np.where(tied[:, None], a - np.outer(a @ W @ b[5], W @ b[5]) / np.sum((W @ b[5]) ** 2), a)
        a = np.where(
            tied[:, None], a + right * (W @ b[5]) / np.sum((W @ b[5]) ** 2), a * np.sign(reach)[:, None]
        )
        rows = outer(a, b, np.where(tied, right, 1.0), tied)
        best = hm.max_margin(rows, norm=name)
        assert best.is_certified
        A, l = rows.rows(), best.multipliers
        size, other = (n.value(v.reshape(rows.shape)) for n, v in ((ball, best.p), (ball.dual, l @ A)))
        lower, upper = best.margin_interval
        assert lower <= (1 + 1e-12) / size
        assert other / float(rows.h @ l) <= upper * (1 + 1e-12)
        assert 1 / size == pytest.approx(other / float(rows.h @ l), rel=1e-8)
        assert (A @ best.p.ravel())[5] == pytest.approx(right, abs=1e-9)
        assert (A @ best.p.ravel())[:5].min() > 1 - 1e-9
        assert hm.certify(best.to_dict()).valid
        free = hm.max_margin(rows.subset(np.flatnonzero(~tied)), norm=name)
        assert free.margin >= best.margin * (1 - 1e-9)


def forged(proof: dict[str, Any], **changes: Any) -> dict[str, Any]:
    content = {k: v for k, v in {**proof, **changes}.items() if k != "digest"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return {**content, "digest": hashlib.sha256(text.encode()).hexdigest()}


def scaled(texts: list[str], factor: float) -> list[str]:
    return [(factor * float.fromhex(x)).hex() for x in texts]


@pytest.mark.parametrize("name", BOTH)
def test_certificates(name: str, tmp_path: Any) -> None:
    """Verified without the solver; whatever is changed in one, it is refused."""
    rows = random_rows(np.random.default_rng(5), 7, 4, 3)
    best = hm.max_margin(rows, norm=name)
    best.save(tmp_path / "proof.json")
    checked = hm.certify(tmp_path / "proof.json")
    assert checked.valid
    lower, upper = best.margin_interval
    assert checked.what == f"the {name} margin lies in [{lower!r}, {upper!r}]"
    proof = best.to_dict()
    left, right = proof["factors"]["left"], proof["factors"]["right"]
    tampered = {
        "the digest": proof | {"status": "undecided"},
        "W": forged(proof, p=[*scaled(proof["p"][:1], 1.001), *proof["p"][1:]]),
        "a multiplier": forged(proof, multipliers=[(0.1).hex(), *proof["multipliers"][1:]]),
        "the norm": forged(proof, norm_name="spectral" if name == "nuclear" else "nuclear"),
        "the interval, upwards": forged(proof, margin_interval=scaled(proof["margin_interval"], 1 + 1e-9)),
        "the interval, downwards": forged(proof, margin_interval=scaled(proof["margin_interval"], 1 - 1e-9)),
        "a factor": forged(proof, factors={"left": [scaled(left[0], 1.01), *left[1:]], "right": right}),
        "no factors": forged(proof, factors=None),
        "factors of another shape": forged(proof, factors={"left": right, "right": left}),
        "the shape": forged(proof, shape=[3, 4]),
        "a shape of other numbers": forged(proof, shape=[6, 2.0]),
        "a row": forged(proof, table=[scaled(row, 0.9) for row in proof["table"]]),
        "nothing left": forged(proof, multipliers=["0x0.0p+0"] * 7),
    }
    for what, changed in tampered.items():
        assert not hm.certify(changed).valid, what
    wider = forged(proof, margin_interval=[(0.99 * lower).hex(), (1.01 * upper).hex()], status="undecided")
    assert hm.certify(wider).valid
    assert not hm.certify(forged(wider, status="certified")).valid


def test_certificates_of_no_solution_and_of_large_matrices() -> None:
    against = outer([[1.0], [1.0]], [[1.0, 0.0], [-1.0, 0.0]])
    nothing = outer([[1.0]], [[1.0, 2.0]], 0.0)
    for name in BOTH:
        assert hm.certify(hm.max_margin(against, norm=name).to_dict()).what.startswith("infeasible")
        assert hm.certify(hm.max_margin(nothing, norm=name).to_dict()).valid
        wide = hm.max_margin(outer(np.ones((1, 101)), [[1.0]]), norm=name)
        assert wide.margin == pytest.approx(math.sqrt(101), rel=1e-12)
        with pytest.raises(
            ValueError, match="max_margin must be of a matrix of at most 100 rows and columns"
        ):
            wide.to_dict()


def test_semidefinite_in_integers() -> None:
    rng = np.random.default_rng(6)
    for rank in range(1, 6):
        G = rng.integers(-9, 10, size=(5, rank))
        M = (G @ G.T).tolist()
        assert semidefinite(M)
        M[rank - 1][rank - 1] -= 10_000
        assert not semidefinite(M)
    assert semidefinite([[0, 0], [0, 3]])
    assert not semidefinite([[0, 1], [1, 3]])


def test_rows_that_are_tight() -> None:
    """Tight everywhere if the margin rises without the row, nowhere if it falls with it as an equality."""
    rows = outer(E3[[0, 1, 0, 2]], E3[[0, 1, 1, 2]], [1, 1, 0.3, 0.2])
    best = hm.max_margin(rows, norm="nuclear")
    assert best.enclosure.certain.tolist() == [True, True, False, True]
    assert best.enclosure.possible.tolist() == [True, True, True, True]  # an entry from 0.3 to 1 is optimal
    loose = hm.max_margin(outer(E3[[0, 0]], E3[[0, 0]], [1, 0.5]), norm="spectral")
    assert loose.enclosure.certain.tolist() == [True, False]
    assert loose.enclosure.possible.tolist() == [True, False]
