"""The gradient (6) as the paper prints it, which the library computes in the log domain."""

import numpy as np
from scipy.special import softmax


def literal_gradient(samples, E, W_ov, W_kq):
    """Return (6) in embedding space, by sentences: sum pi X (diag(a) - a a') X' W_ov' (T - p) x_L'."""
    G = np.zeros_like(W_kq)
    for i in range(samples.n):
        inside = slice(samples.offsets[i], samples.offsets[i + 1])
        X = E[:, np.repeat(samples.tokens[inside], samples.counts[inside])]
        x_L = E[:, samples.query[i]]
        a = softmax(X.T @ W_kq @ x_L)
        T = softmax(W_ov @ X @ a)
        T[samples.target[i]] -= 1.0
        score = X.T @ W_ov.T @ T
        G += samples.weight[i] * np.outer(X @ (a * (score - a @ score)), x_L)
    return G
