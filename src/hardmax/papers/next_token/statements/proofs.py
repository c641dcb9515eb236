"""Proofs that a claim of the next-token paper is false on given data: balls and exact bounds."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from flint import arb

from hardmax.nexttoken.stages import Floats, Ints
from hardmax.nexttoken.training import Training
from hardmax.papers.checking.balls import softmax
from hardmax.papers.checking.proof import at_precision, balls, length

BITS = 256
SLIGHT = 1e-12  # a printed bound in floats may be this much too small


def gradient_in_balls(n: Ints, table: Floats) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return W_ov, W_ov* and the direction of grad L_0, each in one row, in balls."""
    W, right = balls(table.T), balls(np.eye(len(n))[n])
    G = (np.array([softmax(column) for column in W]) - right).ravel()
    return W.ravel(), (right - arb(1) / len(n)).ravel(), G / length(G)


def gain_over_star(W: np.ndarray, star: np.ndarray, G: np.ndarray, size: Any, term: float) -> Any:
    """Return <W/|W|, G> - (1 + term |W*|/|W|) <W*/|W*|, G>.

    The rows are of floats or of balls; ``size`` is |W*|.
    """
    norm = length(W)
    return W @ G / norm - (1 + term * size / norm) * (star @ G / size)


def asked_of_stage_1(V: int, T: int, rate: float) -> bool:
    """Whether T >= 384 |W_ov*|^5 log(2V) log T/eta0 is certain."""
    least = 384 * (arb(V - 1) ** 5).sqrt() * arb(2 * V).log() * arb(T).log()
    return bool(arb(T) * arb(rate) >= least)


def left_behind(run: Training) -> Any:
    """Return a lower bound, in balls, on 1 - cos(W_kq, W_kq*) at the end of Algorithm 1.

    Rare queries hardly move, under Assumptions 1 to 3 with an injective n. A sentence of frequency pi pulls
    with at most 2 pi Delta, as no two of its tokens' values differ by more than 2 Delta; one of frequency pi'
    pulls its deciding token with at least pi' Delta e^(-gap)/(4 L (1 + e^Delta)), and a gap of two entries is
    at most sqrt 2 eta t. So the columns of the rare queries have moved by no more than eta t times the ratio
    of these, while |W_kq| >= eta t/(sqrt 2 |W_kq*|) by Lemma 6; and the part of W_kq* in them is missing.
    """
    pairs, star, margin = run.pairs, run.star, run.W_ov.margin
    if star.values is None or margin is None:
        return arb(0)
    weights, owners = pairs.log_weight, pairs.query[pairs.pair[pairs.offsets[:-1]]]
    queries = sorted(set(owners.tolist()), key=lambda q: float(weights[owners == q].max()))
    squares = [float(np.square(star.values[pairs.query == q]).sum()) for q in queries]
    walked = arb(run.rate) * arb(float(run.times[-1]))

    def bound(count: int) -> Any:
        is_rare = np.isin(owners, queries[:count])
        rare, most = balls(weights[is_rare]), arb(float(weights[is_rare].max()))
        ratio = most + sum(((w - most).exp() for w in rare), arb(0)).log()
        ratio -= arb(float(weights[~is_rare].max()))
        ratio += (8 * arb(run.samples.raw_length) * (1 + arb(margin).exp())).log() + arb(2).sqrt() * walked
        total, rest = arb(sum(squares)).sqrt(), arb(sum(squares[count:])).sqrt()
        return 1 - rest / total - arb(2).sqrt() * total * ratio.exp()

    bounds = [at_precision(BITS, partial(bound, count)) for count in range(1, len(queries))]
    return max(bounds, key=lambda ball: float(ball.lower()), default=arb(0))


def is_above(ball: Any, bound: float) -> bool:
    """Whether a ball is certainly above a bound that floats may have rounded down."""
    return math.isfinite(bound) and bool(ball > arb(bound) * (1 + arb(SLIGHT)))


def outweighs(repeats: int, walked: float) -> bool:
    """Return whether a token that occurs `repeats` times certainly has more attention than x_0.

    W_kq leaves x_0 at 0, and no entry of W_kq is below -t eta.
    """
    return bool(arb(repeats).log() > arb(walked) * (1 + arb(SLIGHT)))
