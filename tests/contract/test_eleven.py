"""The eleven tasks of a new user, run as a PyTorch or scikit-learn user guesses them."""

import numpy as np
import pytest

import hardmax as hm

KEYS, SCORES = np.random.default_rng(3).normal(size=(3, 4, 5)), np.random.default_rng(4).normal(size=(3, 4))
TEXTS = ["good film", "bad film", "a good one", "a bad one"] * 5
LABELS = [1, 0, 1, 0] * 5


@pytest.fixture
def problem():
    return hm.Problem(KEYS, SCORES)  # (a) my keys and scores


def test_a_keys_and_scores(problem):
    run = hm.train(problem, hm.optim.GD(lr=0.1), steps=1000)  # plain gradient descent
    p = np.zeros(5)
    for _ in range(1000):
        p = p - 0.1 * hm.gradient(problem, p).vector
    assert np.allclose(run.p, p, rtol=1e-9)


def test_b_adam_and_flow(problem):
    run = hm.train(problem, hm.optim.Adam(lr=0.1), steps=1000)  # with Adam
    assert (run.times[-1], run.norm) == (1000, "linf")
    run = hm.flow(problem)  # gradient flow
    assert run.p_norm == pytest.approx(1e6)


def test_c_svm_directions(problem):
    run = hm.flow(problem)
    best = hm.max_margin(problem, [2, 2, 3])  # the SVM direction of a selection
    leads = np.einsum("ntd,d->nt", KEYS[range(3), [2, 2, 3]][:, None] - KEYS, best.p)
    assert np.sort(leads.ravel())[3] == pytest.approx(1.0)
    best = hm.max_margin(problem, run)  # ... of what a run selected
    assert run.cosine_distance(best) < 1e-9


def test_d_which_tokens(problem):
    run = hm.flow(problem)
    assert isinstance(run.selection, tuple)
    assert run.selection == tuple(int(np.argmax(keys @ run.direction)) for keys in KEYS)
    assert len(run.selection) == 3
    found = hm.attractors(problem)  # every direction that attracts: list-like, printable
    assert len(found) > 1
    assert found[0].margin == pytest.approx(hm.max_margin(problem, found[0].selection).margin, rel=1e-12)
    assert run.selection in [each.selection for each in found]
    assert str(found).count("\n") == len(found) + 1


def test_e_plots(problem):
    from matplotlib.figure import Figure

    ax, run, found = Figure().subplots(), hm.flow(problem), hm.attractors(problem)
    assert problem.plot(ax=ax) is ax
    assert run.plot(ax=ax) is ax
    assert found.plot(ax=ax) is ax
    assert len(ax.lines) + len(ax.collections) > 0


def test_f_classifier():
    explained = hm.text.AttentionClassifier().fit(TEXTS, LABELS).explain("a good film")
    assert "good" in str(explained)


@pytest.mark.extra
def test_g_drop_in_for_pytorch():
    import torch

    q, k, v = torch.randn(3, 1, 2, 6, 4, generator=torch.manual_seed(0)).unbind()
    ours = hm.torch.scaled_dot_product_attention(q, k, v, is_causal=True)
    theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert torch.allclose(ours, theirs, atol=1e-6)
    model = torch.nn.TransformerEncoderLayer(8, 2, batch_first=True, dropout=0.0)
    x = torch.randn(2, 5, 8)
    expected = model(x)
    with hm.torch.exact_attention(model):
        assert torch.allclose(model(x), expected, atol=1e-5)


@pytest.mark.extra
def test_h_probe(tmp_path):
    from tests.torch.test_probe import save_tiny_model

    model, tokenizer = save_tiny_model(tmp_path)
    texts = ["the cat sat", "the dog sat", "the cat"]
    heads = hm.probe(model, texts=texts, tokenizer=tokenizer).heads.heads
    assert len(heads) == model.config.num_hidden_layers * model.config.num_attention_heads
    assert len(hm.probe(str(tmp_path), texts=texts).heads.heads) == len(heads)


def test_i_sentences():
    found = hm.nexttoken.check([["a", "b", "b"], ["b", "a"]])
    assert str(found)


def test_j_sweep():
    found = hm.sweep("sphere", {"d": [2, 5]}, trials=10)
    assert found.done == 20
    own = hm.sweep(
        lambda parameters, seed: {"twice": 2 * parameters["d"]}, {"d": [2, 5]}, trials=3, workers=0
    )
    assert sorted({row["twice"] for row in own.rows()}) == [4, 10]


def test_k_hunt():
    found = hm.hunt("margin <= 3")
    assert found.exit_code in (0, 1)
