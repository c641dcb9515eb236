"""The log loss of labels (D-DEF-7): minus the log of the attention that a label's tokens receive.

With scores 1 on the tokens of the label and 0 elsewhere, the prediction u is that attention. It underflows
when the label loses by more than 745, so the loss is known as a function of log u, which the core forms from
logit gaps (`softmax.take_logs`). Minus the gradient of an input is sum_t s_t (kbar - k_t) over the tokens
that are not the label's, kbar the mean key of those that are, under the attention.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._lib import expect
from hardmax.problem.heads import Scores
from hardmax.problem.losses import LOG, LOSSES, Loss, as_loss

if TYPE_CHECKING:
    from hardmax.problem import Problem

# The log loss as a function of x = log u; log|dl/du| is -x.
IN_LOG = Loss(
    "log, of log u", value=lambda x: -x, log_slope=LOSSES["exponential"].log_slope, slope_rate=lambda x: -1.0
)


@dataclass(frozen=True, eq=False)
class Labels(Scores):
    """Scores 1 on the tokens of an input's label and 0 elsewhere, and the log loss.

    >>> import hardmax as hm
    >>> problem = hm.Problem.from_scores([[[1.0], [0.0], [0.0]]], [[1, 0, 0]], loss="log")
    >>> [round(hm.risk(problem, [p]), 6) for p in (0.0, 3.0, -1e4)]
    [1.098612, 0.094923, 10000.693147]
    """

    loss: Loss = LOG

    @property
    def in_log(self) -> Loss:
        """The log loss as a function of log u."""
        return IN_LOG


def scored(scores: np.ndarray, offsets: np.ndarray, loss: str | Loss) -> Scores:
    """The head of fixed scores: `Labels` for the log loss, whose scores are 0 and 1.

    >>> import numpy as np
    >>> type(scored(np.array([1.0, 0.0]), np.array([0, 2]), "log")).__name__
    'Labels'
    """
    if loss is not LOG and loss != "log":
        return Scores(scores, as_loss(loss))
    odd = np.flatnonzero((scores != 0.0) & (scores != 1.0))
    if odd.size:
        i = int(np.searchsorted(offsets, odd[0], side="right")) - 1
        raise ValueError(
            f'scores must be 1 on the tokens of the label and 0 elsewhere with loss="log", got '
            f"{scores[odd[0]]:g} in input {i}; choose another loss for other scores"
        )
    most = np.maximum.reduceat(scores, offsets[:-1])
    if not most.all():
        raise ValueError(
            f'scores must be 1 on some token of every input with loss="log", got none in input '
            f"{int(np.argmin(most))}; leave out inputs that do not hold their label"
        )
    return Labels(scores)


def scored_head(scores: Any, offsets: np.ndarray, loss: str | Loss, other: str = "keys") -> Scores:
    """The head of scores that a user passes, one for each token of what is called ``other``."""
    flat, own = expect.ragged("scores", scores, width=False)
    expect.same_tokens("scores", own, offsets, other)
    return scored(flat, offsets, loss)


def has_one_label(problem: Problem) -> bool:
    """Whether the log loss is convex: no input has label tokens with different keys.

    >>> import hardmax as hm
    >>> has_one_label(hm.Problem.from_scores([[[1.0], [0.0]]], [[1, 1]], loss="log"))
    False
    """
    if problem.head.in_log is None:
        return False
    keys = problem.table.leaders(problem.tokens, problem.offsets, np.empty((len(problem.tokens), 0)))
    return all(
        len(set(own[scores == 1.0].tolist())) == 1
        for own, scores in zip(problem.split(keys), problem.split(problem.scores), strict=True)
    )
