"""Masses, losses, accuracy and all observables at the points of stage 2, at any norm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from hardmax.nexttoken.stages import Floats, Pairs, StageTwo
from hardmax.nexttoken.star import KqStar
from hardmax.problem.readouts import OutputValue, best_loss


def log_masses(pairs: Pairs, a: Any) -> Floats:
    """Return log m_n(x) of every entry: log c + A[x, q] minus the log-sum-exp over its sentence."""
    logit = np.asarray(a)[pairs.pair] + np.log(pairs.count)
    top = np.maximum.reduceat(logit, pairs.offsets[:-1])
    gap = (logit - top[pairs.row]).astype(np.float64)
    return gap - np.log(np.add.reduceat(np.exp(gap), pairs.offsets[:-1]))[pairs.row]


def log_off_masses(pairs: Pairs, a: Any) -> Floats:
    """Return log m_- of every sentence, of the mass on tokens that its next token does not continue."""
    return _log_sums(log_masses(pairs, a), ~pairs.is_optimal, pairs)


def target_masses(pairs: Pairs, a: Any) -> Floats:
    """Return m_* of every sentence, the mass on tokens x with n(x) = next token."""
    mass = np.where(pairs.is_optimal, np.exp(log_masses(pairs, a)), 0.0)
    return np.add.reduceat(mass, pairs.offsets[:-1])


def accuracy(pairs: Pairs, a: Any) -> float:
    """Return the share of sentences with two tokens or more whose next token has the largest mass, strictly.

    That is the accuracy of the model for any W_ov = margin W_ov*, margin > 0.
    """
    group, output_mass = _output_masses(pairs, a)
    is_target = pairs.is_optimal[group]
    row = pairs.row[group]
    best = np.full(pairs.n, -1.0)
    np.maximum.at(best, row[~is_target], output_mass[~is_target])
    right = np.zeros(pairs.n)
    right[row[is_target]] = output_mass[is_target]
    return float(np.mean(right > best))


def log_excess_losses(pairs: Pairs, W_ov: OutputValue, a: Any) -> Floats:
    """log(loss - L*) of every sentence with two tokens or more, for W_ov = margin W_ov* and reachable data.

    l - L* = log1p(e^-D [sum_v expm1(D (M_v + m_-)) + (V - |n(X)|) expm1(D m_-)] / (1 + (V-1) e^-D)), with
    the sum over the outputs v other than the next token, all in logs.
    """
    D, V = W_ov.margin, W_ov.V
    if D is None or not pairs.is_reachable:
        raise ValueError("the excess loss needs W_ov = margin W_ov* and a token with n(x) = next token")
    log_m = log_masses(pairs, a)
    off = _log_sums(log_m, ~pairs.is_optimal, pairs)
    group = _groups(pairs)
    log_M = np.logaddexp.reduceat(log_m, group)
    row = pairs.row[group]
    wrong = ~pairs.is_optimal[group]
    terms = _log_expm1(math.log(D) + np.logaddexp(log_M[wrong], off[row[wrong]]))
    outputs = np.bincount(row, minlength=pairs.n)
    with np.errstate(divide="ignore"):
        parts = np.log(V - outputs) + _log_expm1(math.log(D) + off)
    np.logaddexp.at(parts, row[wrong], terms)
    parts -= D + math.log1p((V - 1) * math.exp(-D))
    return np.where(parts < -37.0, parts, np.log(np.logaddexp(0.0, np.maximum(parts, -37.0))))


def log_excess_loss(pairs: Pairs, W_ov: OutputValue, a: Any) -> float:
    """Return log(L - L*) of the dataset; -inf if nothing is left, nan where L* is not known."""
    if W_ov.margin is None or W_ov.margin == 0.0 or not pairs.is_reachable:
        return math.nan
    _, token, target = _constant_sentences(pairs)
    if (pairs.collocation[token] != target).any():  # attention cannot fix these, so L* is not a limit
        return math.nan
    if not pairs.n:
        return -math.inf
    return float(logsumexp(pairs.log_weight + log_excess_losses(pairs, W_ov, a)))


def loss(pairs: Pairs, W_ov: OutputValue, a: Any) -> float:
    """Return the loss (1) of the dataset, constant sentences included."""
    excess = log_excess_loss(pairs, W_ov, a)
    if W_ov.margin is not None and not math.isnan(excess):
        return best_loss(W_ov.V, W_ov.margin) + math.exp(excess)
    weight, token, target = _constant_sentences(pairs)
    if W_ov.margin is None:
        columns = W_ov.table[:, token]
        losses = logsumexp(columns, axis=0) - columns[target, np.arange(len(token))]
    else:
        n, D, V = W_ov.collocation[token], W_ov.margin, W_ov.V
        losses = np.where(n < 0, math.log(V), best_loss(V, D) + np.where(n == target, 0.0, D))
    total = float(weight @ losses)
    if pairs.n:
        total += float(np.exp(pairs.log_weight) @ _sentence_losses(pairs, W_ov, a))
    return total


def _sentence_losses(pairs: Pairs, W_ov: OutputValue, a: Any) -> Floats:
    """Losses from the logits, where nothing is known about W_ov or the targets."""
    if W_ov.margin is None:
        losses = np.empty(pairs.n)
        mass, token = np.exp(log_masses(pairs, a)), pairs.token[pairs.pair]
        for k in range(pairs.n):
            inside = slice(pairs.offsets[k], pairs.offsets[k + 1])
            z = W_ov.table[:, token[inside]] @ mass[inside]
            losses[k] = np.logaddexp(0.0, logsumexp(np.delete(z, pairs.target[k])) - z[pairs.target[k]])
        return losses
    group, M = _output_masses(pairs, a)
    row, output = pairs.row[group], pairs.collocation[pairs.token[pairs.pair[group]]]
    is_target = output == pairs.target[row]
    z_y = np.zeros(pairs.n)
    z_y[row[is_target]] = W_ov.margin * M[is_target]
    wrong = (output >= 0) & ~is_target
    with np.errstate(divide="ignore"):
        others = np.log(W_ov.V - 1.0 - np.bincount(row[wrong], minlength=pairs.n))
    np.logaddexp.at(others, row[wrong], W_ov.margin * M[wrong])
    return np.logaddexp(0.0, others - z_y)


def _constant_sentences(pairs: Pairs) -> tuple[Floats, np.ndarray, np.ndarray]:
    """Weight, token and next token of each sentence that holds one token only."""
    samples = pairs.samples
    chosen = np.flatnonzero(np.diff(samples.offsets) == 1)
    return samples.weight[chosen], samples.tokens[samples.offsets[chosen]], samples.target[chosen]


def _groups(pairs: Pairs) -> np.ndarray:
    """First entry of each (sentence, output)."""
    output = pairs.collocation[pairs.token[pairs.pair]]
    return np.flatnonzero((np.diff(output, prepend=-2) != 0) | (np.diff(pairs.row, prepend=-1) != 0))


def _output_masses(pairs: Pairs, a: Any) -> tuple[np.ndarray, Floats]:
    group = _groups(pairs)
    return group, np.add.reduceat(np.exp(log_masses(pairs, a)), group)


def _log_sums(log_values: Floats, chosen: np.ndarray, pairs: Pairs) -> Floats:
    return np.logaddexp.reduceat(np.where(chosen, log_values, -np.inf), pairs.offsets[:-1])


def _log_expm1(log_x: Floats) -> Floats:
    """log(e^x - 1) from log x."""
    x = np.exp(np.minimum(log_x, 700.0))
    with np.errstate(divide="ignore", over="ignore"):
        exact = np.where(x > 37.0, x, np.log(np.expm1(np.minimum(x, 37.0))))
    return np.where(log_x < -37.0, log_x, exact)


@dataclass(frozen=True, eq=False)
class Observables:
    """One number per recorded point, masses one row per point.

    ``log_gradient`` is log|G|; ``gradient_star`` and ``gradient_weights`` are <G, W_kq*>/|G| and
    <G, W_kq>/|G|, the scaled gradient of C-LEM-6 and C-LEM-7. ``target_mass`` has one column per sentence
    with two tokens or more, ``log_off_mass`` is the log of sum pi m_-. Undefined numbers are nan.
    """

    times: Floats
    norm: Floats
    misalignment: Floats
    loss: Floats
    log_excess: Floats
    accuracy: Floats
    target_mass: Floats
    log_off_mass: Floats
    log_gradient: Floats
    gradient_star: Floats
    gradient_weights: Floats


def observe(stage: StageTwo, star: KqStar, times: Any, points: Any) -> Observables:
    """Measure every point of a run of stage 2."""
    pairs, W_ov, rows = stage.pairs, stage.W_ov, []
    for a in points:
        gradient = stage.direction(a)
        rows.append(
            {
                "norm": float(np.sqrt(a @ a)),
                "misalignment": star.cosine_distance(a),
                "loss": loss(pairs, W_ov, a),
                "log_excess": log_excess_loss(pairs, W_ov, a),
                "accuracy": accuracy(pairs, a),
                "target_mass": target_masses(pairs, a),
                "log_off_mass": float(np.logaddexp.reduce(pairs.log_weight + log_off_masses(pairs, a))),
                "log_gradient": gradient.log_norm,
                "gradient_star": math.nan if star.values is None else float(gradient.unit @ star.values),
                "gradient_weights": float(gradient.unit @ a),
            }
        )
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return Observables(np.asarray(times, dtype=np.float64), **columns)
