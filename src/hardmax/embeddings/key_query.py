"""The one-layer model with a key-query matrix W: the logits are p' W E_s, or E u with u = W' p (A-DEF-2).

So every gradient is that of the plain model at u, and training W alone with p fixed trains u with the step
times |p|^2.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax.data.corpora.corpus import Corpus
from hardmax.embeddings import one_layer


class KeyQueryGradients(NamedTuple):
    """Loss, and its gradients by E, p, W and v; ``u`` is that by u = W' p."""

    loss: float
    E: np.ndarray
    p: np.ndarray
    W: np.ndarray
    v: np.ndarray
    u: np.ndarray


@check_arguments
def gradients(corpus: Corpus, E: Any, p: Any, W: Any, v: Any) -> KeyQueryGradients:
    """Loss and gradients of softmax(p' W E_X') E_X v."""
    E, p, v = one_layer.read_vectors(corpus, E, p, v)
    W = expect.finite_array("W", W, (len(p), len(p)))
    u = W.T @ p
    point = one_layer.evaluate(corpus, E @ u, E @ v)
    by_E, by_u, by_v = one_layer.gradients_at(point, E, u, v)
    return KeyQueryGradients(point.loss, by_E, W @ by_u, np.outer(p, by_u), by_v, by_u)
