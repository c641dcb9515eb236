"""What a training is looked at by: correlations, signs, deciles, levels, and their course."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

import hardmax as hm
from hardmax.embeddings.minibatch import train_embeddings


def test_observables():
    model = hm.embeddings.KLevel.surrogate()
    corpus = model.draw(400, rng=2)
    end = train_embeddings(corpus, 32, hm.optim.AdamW(1e-2), epochs=12, batch=64, rng=3)
    seen = corpus.statistics.total > 0
    x = corpus.posterior_difference[seen]
    assert end.r_v == pytest.approx(spearmanr(x, end.c[seen]).statistic)
    assert end.r_p == pytest.approx(spearmanr(np.abs(x), end.a[seen]).statistic)
    assert end.r_v > 0.8
    assert end.r_p > 0.5
    assert end.sign_accuracy() > 0.9
    assert end.pearson(model.level > 0) > 0.9
    means = end.level_means(model)
    first = model.level == 1
    assert means.value[0] == pytest.approx((model.sign * end.c)[first & seen].mean())
    assert means.logit[3] > means.logit[0] > means.irrelevant_logit
    order = np.argsort(np.abs(x), kind="stable")
    tenth = len(order) // 10
    assert end.deciles.top == np.median(end.a[seen][order[-tenth:]])
    assert end.deciles.top > end.deciles.bottom == np.median(end.a[seen][order[:tenth]])
    assert [each.epochs for each in end.snapshots] == [0, 1, 2, 5, 10, 12]
    E, p, _ = hm.embeddings.initial_vectors(corpus.S, 32, rng=3)
    np.testing.assert_allclose(end.snapshots[0].a, E @ p, atol=1e-6)
    early = train_embeddings(corpus, 32, hm.optim.AdamW(1e-2), epochs=5, batch=64, rng=3)
    assert end.snapshots[3].c.tobytes() == early.c.tobytes()
    assert end.snapshots[3].r_v == early.r_v < end.r_v == end.snapshots[-1].r_v
    assert np.isnan(end.sign_accuracy(beyond=1.0))
    assert np.isnan([end.pearson(np.arange(corpus.S) < k) for k in (0, 1)]).all()
    with pytest.raises(ValueError, match="model must have the corpus's 192 tokens"):
        end.level_means(hm.embeddings.KLevel())


def test_unbalanced_labels_are_centred():
    corpus = hm.Corpus.from_sequences([[0, 1], [0, 1], [0, 2]], [1, 1, -1])
    end = train_embeddings(corpus, 4, hm.optim.AdamW(0.01), epochs=1, rng=0)
    np.testing.assert_allclose(end.x, [0, 2 / 3, -4 / 3], atol=1e-15)
