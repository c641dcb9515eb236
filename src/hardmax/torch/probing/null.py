"""Chance: heads rotated at random, selections drawn at random, ranks among them, and many heads at once.

A rotated head is W O with O a random rotation of the whitened query space: its queries have the mean and the
covariance of the head's, its keys are the head's, and what the one had to do with the other is gone. The mean
stays, so that a head that sends all queries to one token is compared with heads that do so too.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hardmax.torch.probing.inputs import Floats, HeadWeights, Inputs, Ints


def rotated(head: HeadWeights, rng: np.random.Generator, count: int) -> Iterator[Floats]:
    """Queries (S, T, h) of ``count`` rotated heads.

    With Z = 1 mean' + U B (U orthonormal) the rotation R turns U B W_Q' into U R B W_Q'. Only the image of
    B W_Q' under R matters, so a random frame of that many columns is drawn, not a whole rotation.
    """
    inputs = head.inputs
    mean, U, B, there = inputs.whitened
    middle = mean @ head.query_factor.T
    frame, triangle = np.linalg.qr(B @ head.query_factor.T)
    for _ in range(count):
        turned, signs = np.linalg.qr(rng.standard_normal(frame.shape))
        turned *= np.sign(np.diag(signs))  # else QR does not draw evenly
        queries = np.zeros((*there.shape, triangle.shape[1]))
        queries[there] = middle + U @ (turned @ triangle)
        yield queries


def random_tokens(inputs: Inputs, queries: Ints, rng: np.random.Generator) -> Ints:
    """For each query one of the tokens it can see, each as likely; twins are one."""
    per = inputs.length
    seen = inputs.visible.reshape(-1, per)[queries] & inputs.representative[queries // per]
    return np.where(seen, rng.random(seen.shape), -1.0).argmax(axis=1)


def rank_p(value: float, null: Floats) -> float:
    """The share of chance that is at least as large, the value itself counted: never below 1/(n + 1)."""
    known = null[~np.isnan(null)]
    if np.isnan(value) or not known.size:
        return np.nan
    return float((1 + (known >= value).sum()) / (1 + known.size))


def benjamini_hochberg(p: Floats) -> Floats:
    """The smallest rate of false discoveries at which each is one; nan stays nan and does not count."""
    found = np.full(len(p), np.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(-p[known], kind="stable")]
    ranks = np.arange(len(order), 0, -1)
    found[order] = np.minimum.accumulate(np.minimum(p[order] * len(order) / ranks, 1.0))
    return found
