"""Compiled loops of the classifier: a pass of training over all texts, predictions, the most telling tokens.

The loss depends on two things of a token: its mass e^a, where a is E p, and one value per class, E v. They
are in one row of ``table`` (mass first), so that a token costs one look into memory. A text's score for a
class is the mean of its tokens' values, each weighed by mass times multiplicity; with one column of values it
is the log-odds of the second of two classes. The last row of the table is the background, a token that every
text holds once and whose mass is always 1: a text without informative tokens gets a score near the
background's value.
"""

from __future__ import annotations

import math

import numpy as np

from hardmax._lib.kernels import kernel
from hardmax._lib.sorting import select, sort

MOST_CHANGE = 0.5  # of a logit in one step
LEAST_MASS, MOST_MASS = 1e-13, 1e13  # logits stay within 30 of zero
_13, _7, _17, _32 = np.uint64(13), np.uint64(7), np.uint64(17), np.uint64(32)
SGD, ADAGRAD = 0, 1
SLOW = 0.01  # the background's share of SGD's rate: it is in every text, where a word is in few


@kernel(inline="always")
def keep(strength, m, k, places):  # type: ignore[no-untyped-def]
    """The places of the k largest of m numbers, in order, ties by place; how many there are."""
    if m <= k:
        for q in range(m):
            places[q] = q
        return m
    least = select(strength[:m].copy(), m - k)
    above = 0
    for q in range(m):
        above += strength[q] > least
    ties, count = k - above, 0
    for q in range(m):
        if strength[q] > least or (strength[q] == least and ties > 0):
            ties -= strength[q] == least
            places[count] = q
            count += 1
    return count


@kernel(inline="always")
def telling(table, j):  # type: ignore[no-untyped-def]
    """The evidence in a token's value: its size, or the range of the classes' values."""
    if table.shape[1] == 2:
        return abs(table[j, 1])
    least = most = table[j, 1]
    for k in range(2, table.shape[1]):
        least, most = min(least, table[j, k]), max(most, table[j, k])
    return most - least


@kernel(inline="always")
def residuals(scores, label, out):  # type: ignore[no-untyped-def]
    """The loss and its derivatives by the scores, for a label among two or several classes."""
    if scores.size == 1:
        signed = scores[0] if label == 1 else -scores[0]
        small = math.exp(-abs(signed))
        out[0] = (small / (1 + small) if signed >= 0 else 1 / (1 + small)) * (-1.0 if label == 1 else 1.0)
        return math.log1p(small) + max(0.0, -signed)
    top, total = scores[0], 0.0
    for k in range(1, scores.size):
        top = max(top, scores[k])
    for k in range(scores.size):
        out[k] = math.exp(scores[k] - top)
        total += out[k]
    for k in range(scores.size):
        out[k] /= total
    out[label] -= 1.0
    return math.log(total) + top - scores[label]


@kernel()
def one_pass(  # type: ignore[no-untyped-def]
    texts, y, weights, order, table, squares, rule, rates, dropout, top, entropy, seed
):
    """One step per text in the given order; returns the sum of the losses, by weight.

    ``texts`` are the arrays of a CSR matrix. ``rates`` are that of values, that of logits, and the factors of
    both at the first and after the last step. Each token is left out with probability
    ``dropout``; with ``top`` only this many, the most telling, are kept. ``entropy`` is the strength of the
    penalty on the entropy of the attention. ``squares`` are the sums of squared gradients of Adagrad.
    """
    data, indices, indptr = texts
    rate, attention_rate, begin, end = rates
    classes, background, total = table.shape[1] - 1, table.shape[0] - 1, 0.0
    longest = 1
    for i in range(y.size):
        longest = max(longest, 1 + indptr[i + 1] - indptr[i])
    tokens, amounts = np.empty(longest, indices.dtype), np.empty(longest)
    strength, places = np.empty(longest), np.empty(longest, np.int64)
    mean, slope = np.empty(classes), np.empty(classes)
    state = np.uint64(seed)
    threshold = np.uint32(dropout * 4294967295.0)
    for t in range(order.size):
        i = order[t]
        if weights[i] == 0.0:
            continue
        share = begin + (end - begin) * t / order.size
        tokens[0], amounts[0], strength[0], m = background, table[background, 0], np.inf, 1
        for at in range(indptr[i], indptr[i + 1]):
            state ^= state << _13
            state ^= state >> _7
            state ^= state << _17
            if np.uint32(state >> _32) < threshold:
                continue
            j = indices[at]
            tokens[m], amounts[m] = j, data[at] * table[j, 0]
            if top:
                strength[m] = amounts[m] * telling(table, j)
            m += 1
        if top:
            m = keep(strength, m, top + 1, places)
            for q in range(m):  # `places` ascend, so that nothing is overwritten before it is read
                tokens[q], amounts[q] = tokens[places[q]], amounts[places[q]]
        mass = 0.0
        mean[:] = 0.0
        for q in range(m):
            mass += amounts[q]
            for k in range(classes):
                mean[k] += amounts[q] * table[tokens[q], k + 1]
        over = 1.0 / mass
        mean *= over
        total += weights[i] * residuals(mean, y[i], slope)
        slope *= weights[i]
        spread = 0.0
        if entropy:
            for q in range(m):
                spread -= amounts[q] / mass * math.log(amounts[q] / mass)
        for q in range(m):
            j, s = tokens[q], amounts[q] * over
            token_rate = share * rate * (SLOW if j == background and rule == SGD else 1.0)
            pull = 0.0
            for k in range(classes):
                pull += slope[k] * (table[j, k + 1] - mean[k])
                change = s * slope[k]
                if rule == ADAGRAD:
                    squares[j, k + 1] += change * change
                    change /= math.sqrt(squares[j, k + 1])
                table[j, k + 1] -= token_rate * change
            if j == background:
                continue
            pull *= s
            if entropy:
                pull -= entropy * weights[i] * s * (math.log(s) + spread)
            if rule == ADAGRAD:
                squares[j, 0] += pull * pull
                pull /= math.sqrt(squares[j, 0])
            move = min(MOST_CHANGE, max(-MOST_CHANGE, share * attention_rate * pull))
            # e^-move to fourth order: moves are small, and exp would be a fifth of the time of a pass
            factor = 1.0 - move * (1.0 - move / 2 * (1.0 - move / 3 * (1.0 - move / 4)))
            table[j, 0] = min(MOST_MASS, max(LEAST_MASS, table[j, 0] * factor))
    return total


@kernel()
def scores_of(texts, table, top, by_value, share, scores, attended, needed):  # type: ignore[no-untyped-def]
    """The scores of texts, from all tokens or the ``top`` ones, and the share of attention these have.

    ``by_value`` ranks tokens by attention times value, else by attention. The background always counts. With
    a ``share``, ``needed`` is the least share of each text's tokens that hold it of its tokens' attention.
    """
    data, indices, indptr = texts
    background, classes, longest = table.shape[0] - 1, table.shape[1] - 1, 1
    for i in range(indptr.size - 1):
        longest = max(longest, indptr[i + 1] - indptr[i])
    amounts, strength, places = np.empty(longest), np.empty(longest), np.empty(longest, np.int64)
    for i in range(indptr.size - 1):
        start, size, whole = indptr[i], indptr[i + 1] - indptr[i], 0.0
        m = size
        for q in range(m):
            j = indices[start + q]
            amounts[q] = data[start + q] * table[j, 0]
            whole += amounts[q]
            places[q] = q
            if top:
                strength[q] = amounts[q] * (telling(table, j) if by_value else 1.0)
        if top:
            m = keep(strength, m, top, places)
        mass = table[background, 0]
        for k in range(classes):
            scores[i, k] = mass * table[background, k + 1]
        for q in range(m):
            j = indices[start + places[q]]
            mass += amounts[places[q]]
            for k in range(classes):
                scores[i, k] += amounts[places[q]] * table[j, k + 1]
        for k in range(classes):
            scores[i, k] /= mass
        attended[i] = mass / (whole + table[background, 0])
        if share:
            sort(amounts[:size])
            rest, count = 0.0, 0
            for q in range(size):
                rest += amounts[q]
            rest *= share
            while count < size and rest > 0.0:
                count += 1
                rest -= amounts[size - count]
            needed[i] = count / size if size else 0.0
