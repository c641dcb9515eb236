"""Next-token prediction with soft labels: contexts with features, each followed by several next tokens.

The logits of a context with features h are W h, and the loss is the cross-entropy of the next tokens. A
context that several tokens follow cannot be fitted exactly, so a part of W stays finite: there the logits
tend to log-odds. The rest of W diverges in the direction of a max margin between tokens that follow a context
and tokens that do not. `hm.decompose` computes both parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax.problem import Problem


def linear(
    contexts: Sequence[Hashable],
    next_tokens: Sequence[Hashable],
    counts: Sequence[float] | None = None,
    *,
    features: Any = None,
) -> Problem:
    """Make the problem of a linear next-token model with soft labels.

    Entry k states that ``next_tokens[k]`` followed ``contexts[k]`` this many times (``counts[k]``); pairs may
    repeat. Training moves W, of the shape (next tokens in sorted order, features). The loss is the mean
    cross-entropy, so its infimum is at least the conditional entropy of the next token.

    Args:
        contexts: Contexts, any hashable values; row numbers of ``features`` if that is an array.
        next_tokens: The token that follows each, numbers or strings; at least two different ones.
        counts: How often; once each by default.
        features: (m, d), or a mapping from contexts to d numbers. By default every context has its own unit
            vector.

    See also: `hm.decompose`, `Problem.from_classes`.

    >>> import hardmax as hm
    >>> problem = hm.nexttoken.linear(["the", "the", "a"], ["cat", "dog", "sun"], [3, 1, 2])
    >>> problem, problem.shape
    (Problem(n=3, T=3, d=3x2, loss='log'), (3, 2))
    >>> W = hm.decompose(problem).p_fin.reshape(problem.shape)  # columns: "a", "the"
    >>> round(float(W[0, 1] - W[1, 1]), 6)  # log 3
    1.098612
    """
    names = expect.values(contexts)
    if not names:
        raise ValueError("contexts must be a list with at least one context, got none")
    if not all(isinstance(name, Hashable) for name in names):
        raise TypeError("contexts must be numbers, strings or tuples, got lists; give tuples instead")
    length = len(expect.values(next_tokens) or ())
    if length != len(names):
        raise ValueError(
            f"contexts and next_tokens must be lists of one length, got {len(names)} and {length}"
        )
    tokens, numbers = expect.classes("next_tokens", next_tokens, length)
    times = np.ones(len(names)) if counts is None else expect.positives("counts", counts, len(names))
    total: Counter[tuple[Hashable, int]] = Counter()
    for context, token, count in zip(names, numbers.tolist(), times.tolist(), strict=True):
        total[context, token] += count / float(times.max())
    of = _rows(sorted({context for context, _ in total}, key=str), features)
    one_hot = np.eye(len(tokens))
    problem = Problem.from_queries(
        np.broadcast_to(one_hot, (len(total), *one_hot.shape)),
        np.array([of[context] for context, _ in total]),
        one_hot[[token for _, token in total]],
        loss="log",
    )
    weights = np.array(list(total.values()))
    weights /= weights.max()
    if not (weights > 0).all():
        raise ValueError("counts must not differ by a factor of 1e308 or more; leave out the rarest pairs")
    return problem.weighted(weights=weights / weights.sum())


def _rows(contexts: list[Any], features: Any) -> dict[Any, np.ndarray]:
    """Return the features of every context."""
    if features is None:
        features = dict(zip(contexts, np.eye(len(contexts)), strict=True))
    if isinstance(features, Mapping):
        missing = [context for context in contexts if context not in features]
        if missing:
            raise ValueError(f"features must have an entry for every context, got none for {missing[0]!r}")
        table = expect.finite_array("features", [features[context] for context in contexts], (None, None))
        return dict(zip(contexts, table, strict=True))
    table = expect.finite_array("features", features, (None, None))
    wrong = [row for row in contexts if not isinstance(row, int) or not 0 <= row < len(table)]
    if wrong:
        raise ValueError(
            f"contexts must be row numbers of features from 0 to {len(table) - 1}, got {wrong[0]!r}; "
            "give features as a mapping for other contexts"
        )
    return {context: table[context] for context in contexts}
