"""A trained module as a `hardmax.Problem`, so that every verb works on it, and its point p there."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from hardmax._lib.arguments import check_arguments
from hardmax.data.corpora.corpus import Corpus
from hardmax.data.sentences.samples import Samples
from hardmax.problem import Problem
from hardmax.torch.embedding_models import NextToken, OneLayer, QueryAttention, TunedPrompt, TwoLayer, padded


@check_arguments
def problem_of(module: nn.Module, batch: Any) -> Problem:
    """Return the problem of a module on a batch: its attention weights are trained, all the rest is fixed.

    The point of the module in it is `hm.torch.point_of`: `hm.loss(problem, point)` is the module's loss.

    Args:
        module: One of the models of `hm.torch`.
        batch: The argument of the module's ``loss``: a `Corpus` for paper A, `Samples` for paper C, a tuple
            (tokens, labels) or (tokens, queries, labels) for paper B, with a mask after the labels if there
            is one.

    >>> import torch, hardmax as hm
    >>> corpus = hm.Corpus.from_sequences([[0, 1], [1, 2]], [1, -1])
    >>> model = hm.torch.OneLayer(torch.eye(3), torch.zeros(3), torch.tensor([1.0, 0.0, -1.0]))
    >>> problem = hm.torch.problem_of(model, corpus)
    >>> hm.loss(problem, hm.torch.point_of(model, problem)) - model.loss(corpus).item() < 1e-7
    True
    >>> hm.max_margin(problem).p.round(6).tolist()
    [0.333333, -0.666667, 0.333333]
    """
    if isinstance(module, (OneLayer, TwoLayer)):
        corpus = _of_kind(batch, Corpus)
        if isinstance(module, OneLayer):
            return corpus.problem(_array(module.E), _array(module.v), scale=module.scale)
        return _two_layers(module, corpus)
    if isinstance(module, NextToken):
        return _of_kind(batch, Samples).problem(_array(module.W_ov))
    if isinstance(module, TunedPrompt):
        tokens, labels, mask = _parts(batch, 2, "(tokens, labels)")
        W = None if module.W is None else _array(module.W)
        return Problem.from_tokens(_inputs(tokens, mask), labels, _array(module.v), W=W)
    if isinstance(module, QueryAttention):
        tokens, queries, labels, mask = _parts(batch, 3, "(tokens, queries, labels)")
        return Problem.from_queries(_inputs(tokens, mask), queries, labels=labels, readout=_array(module.v))
    raise _refused(module)


@check_arguments
def point_of(module: nn.Module, problem: Problem) -> np.ndarray:
    """Return the point of a module in its problem: p with the module's attention.

    >>> import torch, hardmax as hm
    >>> model = hm.torch.QueryAttention(v=[1.0, 0.0], W=[[1.0, 2.0], [3.0, 4.0]])
    >>> problem = hm.torch.problem_of(model, (torch.eye(2)[None], torch.ones(1, 2), torch.ones(1)))
    >>> point = hm.torch.point_of(model, problem)
    >>> point.tolist(), hm.attention(problem, point)[0].round(4).tolist()
    ([1.0, 2.0, 3.0, 4.0], [0.018, 0.982])
    """
    if isinstance(module, OneLayer):
        return _array(module.query())
    if isinstance(module, (TwoLayer, TunedPrompt)):
        return _array(module.p)
    if isinstance(module, QueryAttention):
        return _array(module.matrix()).ravel()
    if isinstance(module, NextToken):
        head = problem.readout.cross_entropy
        if head is None:
            raise ValueError(
                f"problem must be that of {type(module).__name__}, got {problem!r}; see problem_of"
            )
        return _array(module.W_kq)[head.words, head.queries]
    raise _refused(module)


def _two_layers(module: TwoLayer, corpus: Corpus) -> Problem:
    """The rows that the first layer makes are keys and values of the second."""
    tokens, counts = padded(corpus)
    with torch.no_grad():
        rows = module.outputs(tokens, counts)
    there = counts > 0
    inputs = _inputs(module.scale * rows, there)
    problem = Problem.from_tokens(inputs, corpus.signs, _array(module.v) / module.scale)
    return problem.weighted(counts=_array(counts[there]))


def _inputs(tokens: torch.Tensor, mask: torch.Tensor | None) -> list[np.ndarray]:
    """Tokens of every input, without those that a mask hides."""
    if mask is None:
        return list(_array(tokens))
    return [_array(x[visible]) for x, visible in zip(tokens, mask, strict=True)]


def _parts(batch: Any, least: int, what: str) -> list[Any]:
    """The parts of a batch, and a mask or None: tokens stay tensors, the rest become arrays."""
    parts = [*batch] if isinstance(batch, (tuple, list)) else []
    if not least <= len(parts) <= least + 1 or not all(isinstance(x, torch.Tensor) for x in parts):
        raise ValueError(
            f"batch must be a tuple {what} of tensors, got {type(batch).__name__}; see problem_of"
        )
    mask = parts[least] if len(parts) > least else None
    return [parts[0], *(_array(x) for x in parts[1:least]), mask]


def _of_kind(batch: Any, kind: type) -> Any:
    if not isinstance(batch, kind):
        raise ValueError(
            f"batch must be {kind.__name__} for this module, got {type(batch).__name__}; convert it"
        )
    return batch


def _array(x: torch.Tensor) -> np.ndarray:
    return np.asarray(x.detach().cpu().double().numpy())


def _refused(module: Any) -> ValueError:
    return ValueError(
        f"module must be one of the models of hm.torch, got {type(module).__name__}; "
        "heads of other models are read by hm.probe"
    )
