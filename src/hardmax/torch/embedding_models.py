"""The models of paper A as PyTorch modules, for autograd and for training by any optimizer.

A batch is a pair of arrays from `padded`: distinct tokens (B, U) and their counts, zero where there is none.
Modules return the predictions f; `loss` takes a corpus and is the mean of softplus(-y f).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax._lib.scales import Scale, read_scale
from hardmax.data.corpora.corpus import Corpus
from hardmax.data.sentences.samples import Samples
from hardmax.problem import Problem
from hardmax.torch.zero_sum import softmax


@check_arguments
def padded(
    data: Corpus | Samples, rows: Sequence[int] | np.ndarray | None = None
) -> tuple[torch.Tensor, ...]:
    """Return distinct tokens (B, U) and counts (B, U) of some or all sequences; empty places count 0.

    Of `Samples` a third array has the last token of each sentence, the query.

    >>> import hardmax as hm
    >>> tokens, counts = hm.torch.padded(hm.Corpus.from_sequences([[3], [0, 1, 1]], [1, -1]))
    >>> tokens.tolist(), counts.tolist()
    ([[3, 0], [0, 1]], [[1.0, 0.0], [1.0, 2.0]])
    """
    chosen = np.arange(data.n) if rows is None else expect.whole_array("rows", rows)
    if chosen.ndim != 1 or not chosen.size or not -data.n <= chosen.min() <= chosen.max() < data.n:
        raise ValueError(f"rows must be some of 0 to {data.n - 1}, got {rows!r:.60}")
    first, sizes = data.offsets[chosen], np.diff(data.offsets)[chosen]
    places = np.arange(sizes.max())
    there = places < sizes[:, None]
    slots = np.where(there, first[:, None] + places, 0)
    tokens = torch.from_numpy(np.where(there, data.tokens[slots], 0))
    times = data.counts if isinstance(data, Samples) else data.weights
    counts = torch.from_numpy(np.where(there, times[slots], 0.0))
    if isinstance(data, Samples):
        return tokens, counts, torch.tensor(data.query[chosen])
    return tokens, counts


class _OfCorpus(nn.Module):  # type: ignore[misc]
    """Base class of the models of paper A."""

    def loss(self, corpus: Corpus) -> torch.Tensor:
        """Return the mean logistic loss over all sequences."""
        return logistic(self(*padded(corpus)), torch.tensor(corpus.signs))


class OneLayer(_OfCorpus):
    """softmax(p' E_X') E_X v: only E p and E v are formed, never a (B, U, d) array.

    ``scale`` multiplies the logits: a positive number, "1/sqrt(d)", or None for 1, as printed.

    >>> import torch, hardmax as hm
    >>> corpus = hm.Corpus.from_sequences([[0, 1], [1, 2]], [1, -1])
    >>> model = hm.torch.OneLayer(torch.eye(3), torch.zeros(3), torch.tensor([1.0, 0.0, -1.0]))
    >>> model(*hm.torch.padded(corpus)).tolist()
    [0.5, -0.5]
    """

    def __init__(self, E: Any, p: Any, v: Any, *, scale: Scale = None) -> None:
        super().__init__()
        self.E, self.p, self.v = as_parameter(E), as_parameter(p), as_parameter(v)
        self.scale = read_scale("scale", scale, self.E.shape[1])

    def forward(self, tokens: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """Return predictions f (B,)."""
        a, c = (self.E @ torch.stack([self.query(), self.v], dim=1)).unbind(dim=1)
        return _attend(self.scale * a[tokens], c[tokens], counts)

    def query(self) -> torch.Tensor:
        """Return the vector that multiplies the embeddings in the softmax."""
        return self.p


class KeyQuery(OneLayer):
    """softmax(p' W E_X') E_X v; ``scale`` as in `OneLayer`.

    >>> import torch, hardmax as hm
    >>> corpus = hm.Corpus.from_sequences([[0, 1], [1, 2]], [1, -1])
    >>> model = hm.torch.KeyQuery(torch.eye(3), torch.ones(3), torch.zeros(3, 3), [1.0, 0.0, -1.0])
    >>> model(*hm.torch.padded(corpus)).tolist()
    [0.5, -0.5]
    """

    def __init__(self, E: Any, p: Any, W: Any, v: Any, *, scale: Scale = None) -> None:
        super().__init__(E, p, v, scale=scale)
        self.W = as_parameter(W)

    def query(self) -> torch.Tensor:
        """Return the vector u = W' p that multiplies the embeddings in the softmax."""
        return self.W.T @ self.p


class TwoLayer(_OfCorpus):
    """The two-layer model (36); with ``affine`` its LayerNorm learns a gain and a bias, as PyTorch's does.

    ``first_scale`` multiplies the logits of the first softmax and ``scale`` those of the readout, as in
    `OneLayer`.

    >>> import torch, hardmax as hm
    >>> corpus = hm.Corpus.from_sequences([[0, 1], [1, 2]], [1, -1])
    >>> model = hm.torch.TwoLayer(torch.eye(3), torch.zeros(3), torch.tensor([1.0, 0.0, -1.0]))
    >>> [round(f, 4) for f in model(*hm.torch.padded(corpus)).tolist()]
    [1.3147, -1.3147]
    """

    def __init__(
        self,
        E: Any,
        p: Any,
        v: Any,
        *,
        epsilon: float = 1e-5,
        affine: bool = False,
        first_scale: Scale = None,
        scale: Scale = None,
    ) -> None:
        super().__init__()
        self.E, self.p, self.v = as_parameter(E), as_parameter(p), as_parameter(v)
        d = self.E.shape[1]
        self.first_scale = read_scale("first_scale", first_scale, d)
        self.scale = read_scale("scale", scale, d)
        self.norm = nn.LayerNorm(d, eps=epsilon, elementwise_affine=affine, dtype=self.E.dtype)

    def forward(self, tokens: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """Return predictions f (B,)."""
        output = self.outputs(tokens, counts)
        return _attend(self.scale * (output @ self.p), output @ self.v, counts)

    def outputs(self, tokens: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """Return E', the output (B, U, d) of the first layer."""
        rows = self.E[tokens]
        weights = softmax(
            self.first_scale * (rows @ rows.transpose(1, 2)), bias=counts.to(rows).log()[:, None, :]
        )
        return self.norm(rows + weights @ rows)


def as_parameter(x: Any) -> nn.Parameter:
    """Return a trainable copy; numpy arrays keep their precision."""
    return nn.Parameter(x.detach().clone() if isinstance(x, torch.Tensor) else torch.tensor(x))


def _attend(a: torch.Tensor, c: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """Softmax over the tokens with their counts; the log of a zero count leaves a place out."""
    return (softmax(a, bias=counts.to(a).log()) * c).sum(dim=-1)


class TunedPrompt(nn.Module):  # type: ignore[misc]
    """v' X' softmax(X W' p): a prompt p is tuned, and with it v and W if they require gradients.

    Args:
        p: the prompt, (d,).
        v: the head, (e,) for tokens of e numbers.
        W: keys are W x of the tokens x; the tokens themselves if None.

    >>> import torch, hardmax as hm
    >>> model = hm.torch.TunedPrompt(p=torch.tensor([9.0, 0.0]), v=torch.tensor([0.0, 1.0]))
    >>> model(torch.tensor([[[1.0, 2.0], [0.0, 1.0]]])).tolist()
    [1.9998...]
    """

    def __init__(self, p: Any, v: Any, W: Any = None) -> None:
        super().__init__()
        self.p, self.v = as_parameter(p), as_parameter(v)
        self.W = None if W is None else as_parameter(W)

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Return predictions (n,) of tokens (n, T, e); ``mask`` is True where there is a token."""
        query = self.p if self.W is None else self.p @ self.W
        return _predictions(tokens @ query, tokens @ self.v, mask)

    def loss(
        self, tokens: torch.Tensor, labels: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the mean logistic loss, with labels +1 and -1."""
        return logistic(self(tokens, mask), labels)


class QueryAttention(nn.Module):  # type: ignore[misc]
    """v' X' softmax(X W z) with a query z for each input: W is trained, or its factors, W = K' Q.

    Args:
        v: the head, (d_x,).
        W: the matrix, (d_x, d_z); or
        K, Q: factors (m, d_x) and (m, d_z).

    >>> import torch, hardmax as hm
    >>> model = hm.torch.QueryAttention(v=torch.tensor([0.0, 1.0]), W=torch.zeros(2, 3))
    >>> model(torch.tensor([[[1.0, 2.0], [0.0, 1.0]]]), torch.ones(1, 3)).tolist()
    [1.5]
    """

    def __init__(self, v: Any, W: Any = None, *, K: Any = None, Q: Any = None) -> None:
        super().__init__()
        if (W is None) == (K is None) or (K is None) != (Q is None):
            raise ValueError("W, or K and Q, must be given, got both or neither; give one of the two")
        self.v = as_parameter(v)
        self.W, self.K, self.Q = (None if x is None else as_parameter(x) for x in (W, K, Q))

    def matrix(self) -> torch.Tensor:
        """Return W, (d_x, d_z)."""
        if self.W is not None:
            return self.W
        assert self.K is not None
        return self.K.T @ self.Q

    def forward(
        self, tokens: torch.Tensor, queries: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return predictions (n,) of tokens (n, T, d_x) and queries (n, d_z); ``mask`` is True at tokens."""
        logits = torch.einsum("ntx,nx->nt", tokens, queries @ self.matrix().T)
        return _predictions(logits, tokens @ self.v, mask)

    def loss(
        self,
        tokens: torch.Tensor,
        queries: torch.Tensor,
        labels: torch.Tensor,
        mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the mean logistic loss, with labels +1 and -1."""
        return logistic(self(tokens, queries, mask), labels)


def logistic(predictions: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the mean of log(1 + exp(-y f))."""
    return F.softplus(-labels.to(predictions) * predictions).mean()


def _predictions(logits: torch.Tensor, values: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    bias = None if mask is None else torch.zeros_like(logits).masked_fill(~mask, -torch.inf)
    return (softmax(logits, bias=bias) * values).sum(dim=-1)


class NextToken(nn.Module):  # type: ignore[misc]
    """W_ov X' softmax(X W_kq q), the logits of the next token, with q the last one.

    Args:
        W_kq: A[x, q] = x' W_kq q over the vocabulary, (V, V).
        W_ov: B[v, x] = (W_ov x)_v, (V, V).

    >>> import torch, hardmax as hm
    >>> samples = hm.nexttoken.Samples.from_sentences(["a b b", "b a"])
    >>> model = hm.torch.NextToken(torch.zeros(2, 2), 1.5 * torch.tensor([[-1.0, 1.0], [1.0, -1.0]]))
    >>> round(model.loss(samples).item(), 6)
    0.263441
    """

    def __init__(self, W_kq: Any, W_ov: Any) -> None:
        super().__init__()
        self.W_kq, self.W_ov = as_parameter(W_kq), as_parameter(W_ov)

    def forward(self, tokens: torch.Tensor, counts: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
        """Return logits (n, V) of distinct tokens (n, U), their counts (zero where empty) and last tokens."""
        masses = softmax(self.W_kq[tokens, query[:, None]], bias=counts.to(self.W_kq).log())
        return torch.einsum("nu,vnu->nv", masses, self.W_ov[:, tokens])

    def loss(self, samples: Samples) -> torch.Tensor:
        """Return cross-entropy (1), with the samples' frequencies."""
        logits = self(*padded(samples))
        losses = nn.functional.cross_entropy(logits, torch.tensor(samples.target), reduction="none")
        return losses @ torch.tensor(samples.weight).to(losses)


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
