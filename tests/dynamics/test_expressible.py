"""What users of other code hand over: matrices, tensors with gradients, columns of ids; and new inputs."""

import numpy as np
import pytest

import hardmax as hm
from hardmax.dynamics.measures import excess_loss

rng = np.random.default_rng(5)


class Tensor:
    """Like a PyTorch tensor that requires a gradient: only detached does it become an array."""

    def __init__(self, x, grad=True):
        self.x, self.grad = np.asarray(x), grad
        self.shape = self.x.shape

    def detach(self):
        return Tensor(self.x, grad=False)

    def cpu(self):
        return self

    def __len__(self):
        return len(self.x)

    def __iter__(self):
        return (Tensor(row, self.grad) for row in self.x)

    def __getitem__(self, where):
        return Tensor(self.x[where], self.grad)

    def __array__(self, dtype=None, copy=None):
        if self.grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        return np.array(self.x, dtype=dtype)


def test_tensors_with_gradients():
    keys, scores, p = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 3)), rng.normal(size=4)
    plain = hm.Problem(keys, scores)
    for given in (
        hm.Problem(Tensor(keys), Tensor(scores)),
        hm.Problem([Tensor(k) for k in keys], [Tensor(s) for s in scores]),
        hm.Problem([[Tensor(k) for k in rows] for rows in keys], scores),
    ):
        np.testing.assert_array_equal(given.keys, plain.keys)
        np.testing.assert_array_equal(given.scores, plain.scores)
    assert hm.loss(plain, Tensor(p)) == hm.loss(plain, p)
    assert hm.cosine_distance(Tensor(p), p) == 0.0
    labelled = hm.Problem.from_tokens(keys, Tensor([[1.0], [-1.0]]), Tensor(p))
    assert labelled.readout.labels.tolist() == [1.0, -1.0]


def test_ids_in_a_column():
    problem = hm.data.sphere(n=3, T=4, d=5, rng=0)
    p = np.ones(5)
    expected = excess_loss(problem, p, [1, 0, 2])
    for column in (np.array([[1], [0], [2]]), Tensor(np.array([[1], [0], [2]]))):
        assert excess_loss(problem, p, column) == expected
    with pytest.raises(ValueError, match="selection must be a list of integers"):
        excess_loss(problem, p, np.array([[1, 0, 2]]))


def test_a_matrix_is_a_start_for_lifted_keys():
    """Keys outer(x, z).ravel(): W is read row by row, so that k.p = x'Wz."""
    x, z, W = rng.normal(size=(2, 3, 2)), rng.normal(size=(2, 4)), rng.normal(size=(2, 4))
    keys = np.einsum("ita,ib->itab", x, z).reshape(2, 3, 8)
    problem = hm.Problem(keys, rng.normal(size=(2, 3)))
    path = hm.train(problem, hm.optim.Normalized(0.1), steps=10, start=W)
    np.testing.assert_array_equal(path.points[0].reshape(2, 4), W)
    np.testing.assert_array_equal(
        hm.train(problem, hm.optim.Normalized(0.1), steps=10, start=W.tolist()).p, path.p
    )
    np.testing.assert_allclose(
        problem.keys @ problem.vector("p", W), np.einsum("ita,ab,ib->it", x, W, z).ravel()
    )
    with pytest.raises(ValueError, match=r"start must have shape \(8,\), got \(2, 3\)"):
        hm.train(problem, hm.optim.Normalized(0.1), steps=10, start=W[:, :3])


def test_a_start_for_a_gram_problem():
    x = rng.normal(size=(5, 9))
    inputs, scores, c = [[0, 1, 2], [2, 3, 4]], rng.normal(size=(2, 3)), rng.normal(size=5)
    dense = hm.Problem(x[inputs], scores)
    problem = hm.Problem.from_gram(x @ x.T, inputs, scores)
    ours = hm.train(problem, hm.optim.Normalized(0.1), steps=50, start=problem.combination(c))
    plain = hm.train(dense, hm.optim.Normalized(0.1), steps=50, start=c @ x)
    np.testing.assert_allclose(ours.p_norms, plain.p_norms, rtol=1e-10)
    np.testing.assert_allclose(problem.keys @ ours.p, x @ plain.p, atol=1e-10)
    with pytest.raises(ValueError, match=r"make it of tokens with problem.combination\(coefficients\)"):
        hm.train(problem, hm.optim.Normalized(0.1), steps=50, start=np.ones(9))


def test_predictions_on_new_inputs():
    x, labels, v = rng.normal(size=(20, 4, 3)), rng.choice([-1, 1], 20), rng.normal(size=3)
    path = hm.train(hm.Problem.from_tokens(x, labels, v).joint(), hm.optim.Normalized(0.1), steps=100)
    new = hm.Problem.from_tokens(rng.normal(size=(9, 4, 3)), np.ones(9), v)
    tokens = new.keys.reshape(9, 4, 3)
    s = np.exp(tokens @ path.p)
    f = np.einsum("it,itd,d->i", s / s.sum(axis=1, keepdims=True), tokens, path.v_points[-1])
    np.testing.assert_allclose(path.predictions(new), f, atol=1e-12)
    assert path.accuracy(new) == (f > 0).mean()
    assert path.accuracy() == (path.predictions() > 0).mean()
    start = hm.loss(hm.Problem.from_tokens(x, labels, v), None)
    assert np.logaddexp(0, -path.predictions(at=0)).mean() == pytest.approx(start)


def test_tokens_above_a_threshold():
    keys = [[[0.0], [1.0], [0.0], [-1.0]]]
    problem = hm.Problem(keys, [[1.0, 2.0, 1.0, 0.0]])
    path = hm.train(problem, hm.optim.Normalized(0.1), steps=1, start=[1.0])
    shares = hm.attention(problem, [1.0])[0]
    assert 2 * shares[0] > 0.35 > shares[0]
    assert path.attended(0.35, at=0).sets == ((0, 1),)  # copies count together, under the lowest index
    assert path.attended(0.9, at=0).sets == ((),)
    with pytest.raises(ValueError, match="threshold must be"):
        path.attended(1.5)
