"""The papers' models as modules and as problems: one loss, one gradient, every verb."""

import numpy as np
import pytest

import hardmax as hm

torch = pytest.importorskip("torch", reason="this is about PyTorch: make test-extras")
pytestmark = pytest.mark.extra

chance = np.random.default_rng(0)
CORPUS = hm.Corpus.from_sequences(
    [chance.integers(0, 7, size=T).tolist() for T in (2, 3, 6, 9)], [1, -1, 1, -1]
)
SAMPLES = hm.nexttoken.Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"])


def normal(*shape):
    return chance.normal(size=shape)


def tensors(n=3, T=4, d=5, queries=0):
    x = torch.tensor(normal(n, T, d))
    labels = torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64)
    mask = torch.tensor([[True] * 4, [True, True, False, False], [True, False, True, True]])
    return (x, torch.tensor(normal(n, queries)), labels, mask) if queries else (x, labels, mask)


def cases():
    """Module, batch, and the parameters through which the attention is trained, as a map to the point."""
    E, v, S = normal(CORPUS.S, 6), normal(6), SAMPLES.V
    yield "one layer", hm.torch.OneLayer(E, normal(6), v), CORPUS, "p"
    yield "two layers", hm.torch.TwoLayer(E, normal(6), v), CORPUS, "p"
    yield "a prompt", hm.torch.TunedPrompt(normal(5), normal(5)), tensors(), "p"
    yield "a prompt with W", hm.torch.TunedPrompt(normal(3), normal(5), normal(3, 5)), tensors(), "p"
    yield "without a mask", hm.torch.TunedPrompt(normal(5), normal(5)), tensors()[:2], "p"
    yield "queries", hm.torch.QueryAttention(normal(5), normal(5, 3)), tensors(queries=3), "W"
    yield "next token", hm.torch.NextToken(normal(S, S), normal(S, S)), SAMPLES, "W_kq"


CASES = list(cases())


@pytest.mark.parametrize("name, module, batch, trained", CASES, ids=[case[0] for case in CASES])
def test_loss_and_gradient_of_module_and_problem(name, module, batch, trained):
    problem = hm.torch.problem_of(module, batch)
    point = hm.torch.point_of(module, problem)
    loss = module.loss(*batch) if isinstance(batch, tuple) else module.loss(batch)
    assert float(loss.detach()) == pytest.approx(hm.loss(problem, point), rel=1e-13)
    (found,) = torch.autograd.grad(loss, getattr(module, trained))
    if trained == "W_kq":
        found = found[problem.readout.words, problem.readout.queries]
    wanted = hm.gradient(problem, point).vector
    np.testing.assert_allclose(found.numpy().ravel(), wanted.ravel(), rtol=1e-10, atol=1e-14)


def test_factors_have_the_problem_of_their_product():
    K, Q, v = normal(2, 5), normal(2, 3), normal(5)
    module = hm.torch.QueryAttention(v, K=K, Q=Q)
    whole = hm.torch.QueryAttention(v, W=K.T @ Q)
    batch = tensors(queries=3)
    torch.testing.assert_close(module.loss(*batch), whole.loss(*batch))
    problem = hm.torch.problem_of(module, batch)
    np.testing.assert_allclose(hm.torch.point_of(module, problem), (K.T @ Q).ravel(), rtol=1e-14)


def test_key_query_stands_at_its_product():
    E, p, W, v = normal(CORPUS.S, 6), normal(4), normal(4, 6), normal(6)
    module = hm.torch.KeyQuery(E, p, W, v)
    problem = hm.torch.problem_of(module, CORPUS)
    assert hm.loss(problem, hm.torch.point_of(module, problem)) == pytest.approx(
        float(module.loss(CORPUS).detach()), rel=1e-13
    )


def test_every_verb_works_on_a_trained_module():
    """A prompt trained by PyTorch selects tokens whose max-margin direction it approaches."""
    problem = hm.data.sphere(n=4, T=6, d=10, rng=0)
    x = torch.tensor(problem.keys.reshape(4, 6, 10))
    v = torch.tensor(normal(10))
    batch = (x, torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64))
    module = hm.torch.TunedPrompt(np.zeros(10), v)
    module.v.requires_grad_(False)
    for _ in range(500):
        (gradient,) = torch.autograd.grad(module.loss(*batch), module.p)
        module.p.data -= 0.5 * gradient / gradient.norm()
    own = hm.torch.problem_of(module, batch)
    point = hm.torch.point_of(module, own)
    best = hm.max_margin(own, hm.selected_tokens(own, point))
    assert best.is_certified
    assert hm.cosine_distance(point, best.p) < 1e-3
    path = hm.flow(own, until_norm=1e3)
    assert path.cosine_distance(best) < 1e-4


def test_bad_input_is_refused_in_a_sentence():
    prompt = hm.torch.TunedPrompt(normal(5), normal(5))
    with pytest.raises(ValueError, match=r"module must be one of the models of hm\.torch, got Linear; "):
        hm.torch.problem_of(torch.nn.Linear(2, 2), CORPUS)
    with pytest.raises(ValueError, match=r"batch must be a tuple \(tokens, labels\) of tensors, got Corpus"):
        hm.torch.problem_of(prompt, CORPUS)
    with pytest.raises(ValueError, match="batch must be Corpus for this module, got tuple"):
        hm.torch.problem_of(hm.torch.OneLayer(np.eye(2), [0.0, 0.0], [0.0, 0.0]), tensors())
    with pytest.raises(ValueError, match="W, or K and Q, must be given"):
        hm.torch.QueryAttention([1.0], K=[[1.0]])
    module = hm.torch.NextToken(np.zeros((4, 4)), np.zeros((4, 4)))
    with pytest.raises(ValueError, match="problem must be that of NextToken"):
        hm.torch.point_of(module, hm.data.sphere(n=2, T=2, d=2, rng=0))
