"""The norm of D-CONJ-2, whose ball is spanned by u v' with entries of modulus one, and its dual."""

import itertools

import numpy as np
import pytest

import hardmax as hm
from hardmax.papers.geometry.norms import cut_norm, projective_margin, projective_norm, sign_matrices


def test_the_dual_is_the_largest_over_both_sign_vectors() -> None:
    rng = np.random.default_rng(0)
    for shape in ((1, 1), (2, 3), (4, 2), (3, 5)):
        M = rng.normal(size=shape)
        signs = [np.array(list(itertools.product((1.0, -1.0), repeat=side))) for side in shape]
        assert cut_norm(M) == pytest.approx(float((signs[0] @ M @ signs[1].T).max()), rel=1e-14)
        assert np.abs(sign_matrices(shape) @ M.ravel()).max() == pytest.approx(cut_norm(M), rel=1e-14)


def test_norm_and_dual_are_dual() -> None:
    """<W, M> <= N(W) N*(M), and known norms: of u v', e e', the identity (means of such), and 2 x 2."""
    rng, matrices = np.random.default_rng(1), sign_matrices((3, 3))
    for _ in range(10):
        W, M = rng.normal(size=(2, 3, 3))
        size = projective_norm(matrices, W)
        assert size is not None
        assert abs(float((W * M).sum())) <= size * cut_norm(M) * (1 + 1e-12)
        # The largest margin of the one row W is N*(W).
        assert projective_margin(matrices, W[None]) == pytest.approx(cut_norm(W), rel=1e-9)
    assert projective_norm(matrices, 3.0 * matrices[5].reshape(3, 3)) == pytest.approx(3.0, rel=1e-12)
    assert projective_norm(matrices, np.eye(3)[:1].T @ np.eye(3)[:1]) == pytest.approx(1.0, rel=1e-12)
    assert projective_norm(matrices, np.eye(3)) == pytest.approx(1.0, rel=1e-12)
    hadamard = np.array([[1.0, 1.0], [1.0, -1.0]])  # <H, H> = 4 and N*(H) = 2, so that N(H) >= 2
    assert cut_norm(hadamard) == 2.0
    assert projective_norm(sign_matrices((2, 2)), hadamard) == pytest.approx(2.0, rel=1e-12)


def test_margins_are_proved_from_both_sides() -> None:
    """On w22 it is 15/4; a margin grows with the ball, so it lies above that of the nuclear norm."""
    for name, known in (("w22", 3.75), ("w44", None)):
        problem = hm.data.example(name)
        best = hm.max_margin(problem, norm="nuclear")
        rows = best.constraints.rows().reshape(-1, *problem.shape)
        found = projective_margin(sign_matrices(problem.shape), rows)
        assert found is not None
        assert found >= best.margin  # the unit ball of the nuclear norm lies in this one
        if known is not None:
            assert found == pytest.approx(known, rel=1e-12)
    contradictory = np.stack([np.eye(2), -np.eye(2)])
    assert projective_margin(sign_matrices((2, 2)), contradictory) is None
