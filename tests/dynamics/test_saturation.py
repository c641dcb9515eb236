"""Why the log domain is mandatory (B-DEF-5): naive float64 next to ours on the data of B-FIG-9."""

import numpy as np
import pytest
from scipy.optimize import nnls

import hardmax as hm


def max_margin_direction(keys, selection):
    """Independent oracle: Lawson-Hanson least distance programming for ATT-SVM."""
    rows = np.concatenate([np.delete(k[t] - k, t, axis=0) for k, t in zip(keys, selection, strict=True)])
    E = np.vstack([rows.T, np.ones(len(rows))])
    target = np.eye(len(E))[-1]
    r = E @ nnls(E, target, maxiter=10_000)[0] - target
    return -r[:-1] / r[-1]


def naive_ngd(X, gamma, steps):
    """The usual softmax backward in float64, normalized without epsilon."""
    p = np.zeros(X.shape[-1])
    for _ in range(steps):
        a = X @ p
        s = np.exp(a - a.max(axis=1, keepdims=True))
        s /= s.sum(axis=1, keepdims=True)
        u = (s * gamma).sum(axis=1)
        weights = s * (gamma - u[:, None]) / (1 + np.exp(u))[:, None]
        g = np.einsum("it,itd->d", weights, X)
        size = np.linalg.norm(g)
        if size == 0:
            break
        p = p + g / size
    return p


@pytest.mark.slow
@pytest.mark.parametrize("d", [100, 300, 500])
@pytest.mark.no_cover
def test_naive_gradient_loses_the_direction(d):
    problems = list(hm.data.fig9_oracle(d, 30))
    ours, naive = [], []
    for problem, path in zip(problems, hm.train(problems, hm.optim.Normalized(1.0), steps=1000), strict=True):
        keys, gamma = problem.keys.reshape(4, 6, d), problem.scores.reshape(4, 6)
        ours.append(1 - path.cosine_distance(max_margin_direction(keys, path.selection)))
        p = naive_ngd(keys, gamma, 1000)
        selected = (keys @ p).argmax(axis=1)
        naive.append(1 - hm.cosine_distance(p, max_margin_direction(keys, selected)))
    assert np.mean(naive) < 0.6
    assert np.mean(ours) > 0.9999


@pytest.mark.slow
def test_fig9_rates_at_d_10():
    """The first 200 trials of the oracle's stream: saturation, selections, mean correlation."""
    problems = list(hm.data.fig9_oracle(10, 200))
    paths = hm.train(problems, hm.optim.Normalized(1.0), steps=1000)
    assert all(path.off_top_attention() <= 1e-5 for path in paths)
    best = [
        tuple(p.scores.reshape(4, 6).argmax(axis=1)) == tuple(t.selection)
        for p, t in zip(problems, paths, strict=True)
    ]
    assert np.mean(best) == pytest.approx(0.345, abs=1e-9)
    cosines = [
        1 - t.cosine_distance(max_margin_direction(p.keys.reshape(4, 6, 10), t.selection))
        for p, t in zip(problems, paths, strict=True)
    ]
    assert np.mean(cosines) == pytest.approx(0.99984, abs=5e-6)
    assert min(cosines) == pytest.approx(0.9816, abs=5e-5)
