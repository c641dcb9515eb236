"""PyTorch: exact attention in its three forms, the papers' models as modules, watching and probing."""

import numpy as np
import pytest

from . import formulas as f
from . import names as n

pytestmark = pytest.mark.extra
torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)
    torch.set_num_threads(1)


def test_attention_is_pytorchs():
    q, k, v = torch.randn(3, 2, 4, 5, 8, dtype=torch.float64)
    theirs = torch.nn.functional.scaled_dot_product_attention
    for options in ({}, {"is_causal": True}, {"attn_mask": torch.randn(5, 5, dtype=torch.float64)}):
        assert torch.allclose(
            n.torch_attention(q, k, v, **options), theirs(q, k, v, **options), rtol=1e-12, atol=1e-14
        )
    weights = n.torch_attention_weights(torch.zeros(1, 2, 3), torch.zeros(1, 2, 3), is_causal=True)
    assert weights[0].tolist() == [[1.0, 0.0], [0.5, 0.5]]


def test_a_saturated_gradient_keeps_its_direction():
    x = torch.tensor([20.0, 0.0, 0.0], requires_grad=True)
    (found,) = torch.autograd.grad(n.torch_softmax(x)[0], x)
    truth = np.array([2.0, -1.0, -1.0]) * np.exp(-20.0)
    assert f.close(found.double().numpy(), truth, rtol=1e-5)
    q = torch.tensor([[[30.0, 0.0]]], requires_grad=True)
    out = n.torch_attention(q, torch.eye(2)[None], torch.eye(2)[None], scale=1.0)
    (found,) = torch.autograd.grad(out[0, 0, 0], q)
    assert f.close(found[0, 0].double().numpy(), np.array([1.0, -1.0]) * np.exp(-30.0), rtol=1e-5)


def test_multihead_attention_loads_pytorchs_weights():
    theirs = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    ours = n.torch_multihead(8, 2, batch_first=True)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(3, 5, 8)
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(ours(x, x, x), theirs(x, x, x), strict=True))


def test_the_papers_models_as_modules():
    corpus = n.corpus([[0, 1], [1, 2]], [1, -1])
    tokens, counts = n.torch_padded(n.corpus([[3], [0, 1, 1]], [1, -1]))
    assert (tokens.tolist(), counts.tolist()) == ([[3, 0], [0, 1]], [[1.0, 0.0], [1.0, 2.0]])
    E, p, v = torch.eye(3), torch.zeros(3), torch.tensor([1.0, 0.0, -1.0])
    one = n.torch_one_layer(E, p, v)
    assert one(*n.torch_padded(corpus)).tolist() == [0.5, -0.5]
    two = n.torch_two_layers(E, p, v)(*n.torch_padded(corpus))
    assert f.close(two.tolist(), n.two_layer(corpus, np.eye(3), np.zeros(3), [1.0, 0.0, -1.0])[0], rtol=1e-5)
    assert n.torch_key_query(E, torch.ones(3), torch.zeros(3, 3), v)(*n.torch_padded(corpus)).tolist() == [
        0.5,
        -0.5,
    ]
    problem = n.torch_problem(one, corpus)
    assert n.loss(problem, n.torch_point(one, problem)) == pytest.approx(one.loss(corpus).item(), abs=1e-7)
    samples = n.samples(["a b b", "b a"])
    W_ov = 1.5 * torch.tensor([[-1.0, 1.0], [1.0, -1.0]])
    exact = n.next_token_model(samples, np.zeros((2, 2)), W_ov.numpy()).loss
    assert n.torch_next_token(torch.zeros(2, 2), W_ov).loss(samples).item() == pytest.approx(exact, rel=1e-6)


def test_prompts_queries_and_images():
    X = torch.tensor([[[1.0, 2.0], [0.0, 1.0]]])
    s = 1 / (1 + np.exp(-9.0))
    found = n.torch_prompt(p=torch.tensor([9.0, 0.0]), v=torch.tensor([0.0, 1.0]))(X)
    assert found.item() == pytest.approx(2 * s + (1 - s), rel=1e-6)
    assert n.torch_queries(v=torch.tensor([0.0, 1.0]), W=torch.zeros(2, 3))(X, torch.ones(1, 3)).tolist() == [
        1.5
    ]
    vision = n.torch_vision(dim=16, depth=1, heads=2)
    images = torch.randn(2, 3, 32, 32)
    assert vision(images).shape == (2, 10)
    assert torch.allclose(vision.cls_weights(images).sum(-1), torch.ones(2, 2), atol=1e-5)


def test_layers_are_found_and_watched():
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    found = n.torch_layers(torch.nn.TransformerEncoder(layer, 2))
    assert [each.name for each in found] == ["layers.0.self_attn", "layers.1.self_attn"]
    assert (found[0].heads, found[0].head_dim) == (2, 4)
    assert n.torch_projection(torch.nn.Linear(6, 8), heads=2).weights().shape == (2, 4, 6)
    with n.torch_watch(layer, every=2) as seen:
        for _ in range(4):
            layer(torch.randn(3, 5, 8))
            seen.step()
    assert seen.table["step"].tolist() == [0, 0, 2, 2]
    assert all(1.0 <= x <= 5.0 for x in seen.table["tokens"])  # that a head attends to, of five
    assert f.close(seen.table["sparsity"], seen.table["tokens"] / 5, rtol=1e-6)


def test_probing():
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    found = n.probe(layer, torch.randn(6, 5, 8), null=39)
    assert (len(found.heads), found.texts) == (2, 6)
    assert all(0 <= head.hard <= head.measured == 30 for head in found.heads)
    with pytest.raises(OSError, match="no-such-model"):
        n.probe_file("no-such-model")


def test_two_layers_by_mini_batches():
    corpus = n.k_level("small").draw(64, rng=0)
    run = n.train_minibatch(corpus, 16, n.optimizer("adamw", 0.02), layers=2, epochs=15, batch=16, rng=0)
    assert run.loss < 1e-2
    assert run.losses[-1] < run.losses[0]
