"""Problem: constructors, files, and refusals that name what is wrong."""

import copy
import json
import pickle

import numpy as np
import pytest

import hardmax as hm

KEYS = [[[1.0, 0.0], [0.0, 0.0]], [[-1.0, 1.0], [1.0, 0.0], [0.0, 2.0]]]
SCORES = [[1.0, 0.0], [1.0, 0.0, 0.5]]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"keys": []}, "keys must hold at least one input"),
        ({"keys": 3}, "keys must be n inputs"),
        ({"keys": "abc"}, "keys must be n inputs"),
        ({"keys": [[[1.0, 0.0]], []]}, r"keys\[1\] is empty"),
        (
            {"keys": [[[1.0, np.nan], [0, 0]], KEYS[1]]},
            r"keys\[0\] must be finite, got nan at index \(0, 1\)",
        ),
        ({"keys": np.full((1, 2, 2), np.inf)}, "keys must be finite, got inf"),
        (
            {"keys": [KEYS[0], [[1.0], [2.0], [3.0]]]},
            r"keys\[1\] must have 2 numbers per token as keys\[0\], got 1",
        ),
        ({"keys": [[[1.0, 0.0], [0.0]], KEYS[1]]}, r"keys\[0\] must be numbers of shape"),
        ({"scores": [[1.0, 0.0]]}, "scores must have 2 inputs as keys, got 1"),
        ({"scores": [[1.0, 0.0], [1.0, 0.0]]}, r"scores\[1\] must have 3 tokens as keys\[1\], got 2"),
        ({"scores": [["a", "b"], [1, 2, 3]]}, r"scores\[0\] must be numbers"),
        ({"loss": "hinge"}, "loss must be one of logistic, exponential, correlation"),
    ],
)
def test_bad_scores_problem(arguments, message):
    with pytest.raises(ValueError, match=message):
        hm.Problem(**({"keys": KEYS, "scores": SCORES} | arguments))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"labels": [1, 0]}, "labels must be \\+1 or -1, got 0 at index 1"),
        ({"labels": [1]}, r"labels must have shape \(2,\), got \(1,\)"),
        ({"readout": [1.0]}, r"readout must have shape \(2,\), got \(1,\)"),
        ({"W": [[1.0, 0.0, 0.0]]}, r"W must have shape \(a, 2\), got \(1, 3\)"),
    ],
)
def test_bad_token_problem(arguments, message):
    with pytest.raises(ValueError, match=message):
        hm.Problem.from_tokens(**({"tokens": KEYS, "labels": [1, -1], "readout": [1.0, 0.0]} | arguments))


def test_copies_and_pickles_are_the_problem():
    problem = hm.Problem(
        [[[1.0, 0.0], [0.0, 0.0]], [[-1.0, 1.0], [1.0, 0.0], [0.0, 2.0]]], [[1, 0], [1, 0, 0]]
    )
    _ = problem.groups  # what is cached must not get in the way
    for same in (copy.copy(problem), copy.deepcopy(problem), pickle.loads(pickle.dumps(problem))):
        assert (repr(same), same.scores.tolist()) == (repr(problem), problem.scores.tolist())
        assert same.keys.tolist() == problem.keys.tolist()
        assert hm.loss(same, np.ones(problem.d)) == hm.loss(problem, np.ones(problem.d))
    changed = problem._with(weights=np.full(problem.n, 2.0))
    assert (changed.weights.tolist(), problem.weights) == ([2.0] * problem.n, None)
    with pytest.raises(AttributeError):
        problem.W = 3


def test_a_forgotten_list_of_inputs_is_asked_about():
    with pytest.raises(ValueError, match=r"did you forget the outer list of inputs\?"):
        hm.Problem([[1, 0], [0, 0]], [1, 0])
    with pytest.raises(ValueError, match=r"did you forget the outer list of inputs\?"):
        hm.Problem([[[1, 0], [0, 0]]], [1, 0])


def test_bad_gram():
    with pytest.raises(ValueError, match="symmetric"):
        hm.Problem.from_gram([[1.0, 0.5], [0.0, 1.0]], [[0, 1]], [[1, 0]])
    with pytest.raises(ValueError, match="positive semidefinite"):
        hm.Problem.from_gram([[1.0, 2.0], [2.0, 1.0]], [[0, 1]], [[1, 0]])
    with pytest.raises(ValueError, match="from 0 to 1"):
        hm.Problem.from_gram(np.eye(2), [[0, 2]], [[1, 0]])


def test_needs_of_the_gradients():
    scored = hm.Problem(KEYS, SCORES)
    for by in ("v", "W"):
        with pytest.raises(ValueError, match="from_tokens"):
            hm.gradient(scored, [0, 0], wrt=by)
    with pytest.raises(ValueError, match="training W needs"):
        hm.train(scored.matrix(prompt=[1, 1]), hm.optim.Normalized(0.1))
    with pytest.raises(ValueError, match="training v needs"):
        hm.train(scored.joint(), hm.optim.Normalized(0.1))
    with pytest.raises(ValueError, match="wrt must be"):
        hm.gradient(scored, [0, 0], wrt="q")
    with pytest.raises(ValueError, match=r"selection\[1\] must be a token from 0 to 2, got 3"):
        hm.dynamics.excess_loss(scored, [0, 0], [0, 3])


def test_equal_sizes_as_array_or_lists():
    keys = np.random.default_rng(0).normal(size=(3, 4, 2))
    a, b = (hm.Problem(keys, keys[..., 0]), hm.Problem(keys.tolist(), keys[..., 0].tolist()))
    np.testing.assert_array_equal(a.keys, b.keys)
    np.testing.assert_array_equal(a.offsets, b.offsets)
    assert not a.keys.flags.writeable


def problems():
    yield hm.Problem(KEYS, SCORES, loss="exponential")
    yield hm.Problem.from_tokens(KEYS, [1, -1], [0.5, 2.0], W=[[1.0, 2.0], [0.0, 1.0]])
    yield hm.Problem.from_gram(np.eye(3) + 0.5, [[0, 1], [1, 2, 0]], SCORES)


@pytest.mark.parametrize("ending", ["npz", "json"])
@pytest.mark.parametrize("which", range(3))
def test_save_and_load(tmp_path, ending, which):
    problem = list(problems())[which]
    file = tmp_path / f"problem.{ending}"
    problem.save(file)
    back = hm.Problem.load(file)
    p = np.linspace(-2, 1, problem.d)
    assert back.loss.name == problem.loss.name
    np.testing.assert_array_equal(back.scores, problem.scores)
    np.testing.assert_array_equal(back.offsets, problem.offsets)
    np.testing.assert_array_equal(hm.gradient(back, p).direction, hm.gradient(problem, p).direction)


def test_what_cannot_be_saved(tmp_path):
    own = hm.LossFunction("own", np.negative, lambda u: 0.0)
    with pytest.raises(ValueError, match="cannot be saved"):
        hm.Problem(KEYS, SCORES, loss=own).save(tmp_path / "x.npz")
    with pytest.raises(ValueError, match=r"\.npz or \.json, got the ending '.txt'"):
        hm.Problem(KEYS, SCORES).save(tmp_path / "x.txt")


@pytest.mark.parametrize(
    "content, message",
    [
        ("{", "not valid JSON"),
        ("[]", "must hold a JSON object"),
        ("{}", "must hold keys and either scores or values, labels and head, or tokens, queries and either"),
        (json.dumps({"keys": KEYS, "score": SCORES}), "unknown name 'score'"),
        (json.dumps({"keys": KEYS, "scores": SCORES, "labels": [1, 1]}), "not both"),
        (json.dumps({"keys": KEYS, "scores": SCORES, "loss": 3}), "loss must be a name"),
        (json.dumps({"keys": KEYS, "scores": [[1.0, None], [1, 2, 3]]}), r"scores\[0\] must be"),
    ],
)
def test_broken_json(tmp_path, content, message):
    file = tmp_path / "broken.json"
    file.write_text(content)
    with pytest.raises(ValueError, match=message):
        hm.Problem.load(file)


def test_broken_npz(tmp_path):
    file = tmp_path / "broken.npz"
    file.write_bytes(b"not a zip file")
    with pytest.raises(ValueError, match="npz"):
        hm.Problem.load(file)
    np.savez(file, keys=np.zeros((2, 1)), offsets=[0, 3], scores=[1.0, 2.0])
    with pytest.raises(ValueError, match="offsets must rise from 0 to the number of tokens"):
        hm.Problem.load(file)
    np.savez(file, keys=np.array([{}], dtype=object), offsets=[0, 1], scores=[1.0])
    with pytest.raises(ValueError, match=r"allow_pickle|npz"):
        hm.Problem.load(file)


def test_trajectory_files(tmp_path):
    path = hm.train(hm.data.example("B-FIG-3b").joint(), hm.optim.Normalized(0.1), steps=20, start=[0, -1])
    path.save(tmp_path / "path.npz")
    back = hm.Run.load(tmp_path / "path.npz")
    np.testing.assert_array_equal(back.points, path.points)
    np.testing.assert_array_equal(back.v_points, path.v_points)
    np.testing.assert_array_equal(back.losses, path.losses)
    assert (back.clock, back.event, back.method) == (path.clock, path.event, path.method)
    assert float(back.excess([1, 1, 1])) == float(path.excess([1, 1, 1]))
    hm.data.example("B-FIG-8").save(tmp_path / "problem.npz")
    with pytest.raises(ValueError, match="does not hold a run"):
        hm.Run.load(tmp_path / "problem.npz")


def test_display(tmp_path):
    path = hm.flow(hm.data.example("B-FIG-8"), until_norm=100)
    display = path.display(target=[1.0, 3.0])
    assert list(display.curves) == ["norm of p", "attention off the top token", "1 - cos to the target"]
    assert display.curves["1 - cos to the target"][-1] == path.cosine_distance([1.0, 3.0])
    display.plot().savefig(tmp_path / "path.png")
    assert (tmp_path / "path.png").stat().st_size > 5000


def test_groups_of_gram_problems():
    """The same token twice, and two tokens with equal rows of the Gram matrix."""
    x = np.array([[1.0, 0.3], [0.2, -0.7], [1.0, 0.3]])
    problem = hm.Problem.from_gram(x @ x.T, [[1, 0, 2, 0]], [[0.0, 1.0, 1.0, 1.0]])
    assert problem.groups.tolist() == [0, 1, 1, 1]
    np.testing.assert_allclose(problem.keys @ problem.keys.T, x @ x.T, atol=1e-15)
    slightly = hm.Problem.from_gram([[1.0, 0.5], [0.5 * (1 + 1e-13), 1.0]], [[0, 1]], [[1, 0]])
    assert (slightly.gram == slightly.gram.T).all()


def test_groups_under_a_nonlinear_head():
    """There equal values stand for equal scores."""
    keys, values = [[[1.0], [1.0], [1.0], [0.0]]], [[[2.0], [3.0], [2.0], [2.0]]]
    problem = hm.Problem.from_psi(keys, values, [1], lambda z: z[:, 0], np.ones_like)
    assert problem.groups.tolist() == [0, 1, 0, 3]


@pytest.mark.parametrize(
    "spoil, words",
    [
        (lambda gram: np.full_like(gram, np.nan), "gram must be finite"),
        (lambda gram: gram * np.inf, "gram must be finite"),
        (lambda gram: gram + np.triu(np.ones_like(gram), 1), "gram must be a symmetric matrix"),
        (lambda gram: -gram, "gram must hold the inner products of keys"),
        (lambda gram: gram + 1e-6, "gram must hold the inner products of keys"),
        (lambda gram: gram[:2, :2], "gram must have shape"),
        (lambda gram: np.full_like(gram, 1e308), "gram must hold the inner products of keys"),
    ],
)
def test_inner_products_in_a_file_are_those_of_the_keys(tmp_path, spoil, words):
    """All nan was taken, and gave "infeasible" with a certificate that held."""
    file = tmp_path / "a.npz"
    made = hm.Problem.from_gram(np.eye(3) + 0.1, inputs=[[0, 1], [1, 2]], scores=[[1, 0], [1, 0]])
    made.save(file)
    assert hm.Problem.load(file).gram.tolist() == made.gram.tolist()
    arrays = dict(np.load(file))
    arrays["gram"] = spoil(arrays["gram"])
    np.savez(file, **arrays)
    with pytest.raises(ValueError, match=words):
        hm.Problem.load(file)


@pytest.mark.parametrize("N, rank", [(1, 1), (40, 3), (200, 200)])
def test_inner_products_of_any_rank_and_size_come_back(tmp_path, N, rank):
    rows = np.random.default_rng(N).normal(size=(N, rank)) * 1e70
    made = hm.Problem.from_gram(rows @ rows.T, inputs=[range(N)], scores=[np.arange(N)])
    made.save(tmp_path / "a.npz")
    assert hm.Problem.load(tmp_path / "a.npz").gram.tolist() == made.gram.tolist()
