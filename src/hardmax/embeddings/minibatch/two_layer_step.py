"""One training step of the two-layer model on distinct tokens, with d in two matrix products only.

LayerNorm takes the mean off a row, so let R be the rows of a sequence's tokens less their means s, and
J = I + H attention with the residual. With K = R R', A-DEF-5 and A-DEF-6 happen among the tokens, as in
A-RED-6: E' = J R / sigma with d sigma^2 = diag(J K J') + d epsilon, the derivative by H is
alpha (R p)' + beta (R v)' - omega J K, and the one by the rows of E is

    (dK + dK' - J' omega J) R + J' alpha p' + J' beta v' + (dK + dK') s 1',

with alpha = A / sigma, beta = C / sigma, omega = (A E'p + C E'v) / (d sigma^2), and p and v less their means;
p receives R' J' alpha and v receives R' J' beta. So p and v are two more rows of R, and d occurs in R R' and
in one symmetric matrix times R only. A-DEF-6 itself has five such products, autograd six. A factor before
the logits of a softmax multiplies the derivative by them: dK for the first one, A for the readout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np
import torch

from hardmax._lib.parallel import serial_blas
from hardmax.data.corpora.corpus import Corpus
from hardmax.dynamics.optim import AdamW
from hardmax.embeddings.minibatch.kernels import update_adamw
from hardmax.torch.embedding_models import padded

EPSILON = 1e-5  # of the LayerNorm
GROUP = 2**21  # numbers that the work on one group of sequences keeps in the cache, about
BLOCK = 2**17  # numbers that an optimizer step takes at a time


class TwoLayerModel:
    """The stack W = [E; p; v] with its moments; the arrays change in place.

    Workers compute groups of sequences, the calling thread adds their gradients in the order of the groups,
    and no product is shared among threads: their number changes no bit of the result.
    """

    def __init__(
        self,
        E: np.ndarray,
        p: np.ndarray,
        v: np.ndarray,
        rule: AdamW,
        kind: str,
        workers: int,
        scale: float = 1.0,
        first_scale: float = 1.0,
    ) -> None:
        self._scales = (scale, first_scale)
        self.rule, self.steps, self._workers = rule, 0, workers
        # Memory of torch is aligned alike in every run, so that products round alike.
        self.W = torch.tensor(np.vstack([E, p, v]), dtype=getattr(torch, kind))
        self.first, self.second, self._by_W = (torch.zeros_like(self.W) for _ in range(3))
        self._map: Callable[..., Iterable[Any]] = map
        self._open = ExitStack()

    def __enter__(self) -> TwoLayerModel:
        self._open.enter_context(serial_blas())
        self._open.callback(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)
        if self._workers > 1:
            pool = ThreadPoolExecutor(self._workers, initializer=torch.set_num_threads, initargs=(1,))
            self._map = self._open.enter_context(pool).map
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()
        self._map = map

    def step(self, batch: Corpus, rate: float) -> float:
        """One step on a batch; returns the batch's loss before it, nan where the parameters overflowed."""
        loss = 0.0

        def work(rows: np.ndarray) -> tuple[torch.Tensor, torch.Tensor, float]:
            return backward(self._forward(batch, rows), batch.n, *self._scales)

        for places, by_rows, part in self._map(work, similar(np.diff(batch.offsets), self.W.shape[1])):
            self._by_W.index_add_(0, places, by_rows)
            loss += part
        self.steps += 1
        flat = [x.view(-1).numpy() for x in (self.W, self._by_W, self.first, self.second)]
        k = self.rule.scalars(self.steps, rate).astype(flat[0].dtype)

        def move(start: int) -> None:
            x, g, first, second = (x[start : start + BLOCK] for x in flat)
            update_adamw(x, g, first, second, k)
            g[:] = 0.0

        for _ in self._map(move, range(0, flat[0].size, BLOCK)):
            pass
        return loss / batch.n

    def measured(self, corpus: Corpus) -> tuple[float, float]:
        """Mean over a corpus of the loss, and of the largest share of attention that a token has."""

        def work(rows: np.ndarray) -> tuple[float, float]:
            layers = self._forward(corpus, rows)
            return layers.loss, float(layers.Q.max(dim=1).values.double().sum())

        groups = similar(np.diff(corpus.offsets), self.W.shape[1])
        losses, shares = zip(*self._map(work, groups), strict=True)
        return sum(losses) / corpus.n, sum(shares) / corpus.n

    @property
    def parameters(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """E, p and v."""
        W = self.W.numpy()
        return W[:-2], W[-2], W[-1]

    def observe(self) -> tuple[np.ndarray, np.ndarray]:
        """a = E p and c = E v of all tokens."""
        a, c = (self.W[-2:].double() @ self.W[:-2].double().T).numpy()
        return a, c

    def arrays(self) -> dict[str, np.ndarray]:
        """Parameters, moments and the number of steps."""
        arrays = {name: getattr(self, name).numpy() for name in ("W", "first", "second")}
        return {**arrays, "steps": np.array(self.steps)}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from what `arrays` returned."""
        for name in ("W", "first", "second"):
            getattr(self, name).numpy()[:] = arrays[name]
        self.steps = int(arrays["steps"])

    def _forward(self, corpus: Corpus, rows: np.ndarray) -> _LayerPass:
        tokens, counts = padded(corpus, rows)
        S = len(self.W) - 2
        places = torch.cat([tokens, torch.tensor([S, S + 1]).expand(len(rows), 2)], dim=1)
        R = self.W.index_select(0, places.view(-1)).view(*places.shape, -1)
        signs = torch.from_numpy(corpus.signs[rows])
        return forward(places, R, counts.log().to(R), signs, *self._scales)


class _LayerPass(NamedTuple):
    """Some sequences of U places each: the network up to the loss, with all arrays of the backward pass."""

    places: torch.Tensor  # (B, U + 2) in W
    R: torch.Tensor  # (B, U + 2, d) rows of W less their means
    s: torch.Tensor  # (B, U, 1) the means
    ac: torch.Tensor  # (B, U, 2) R p, R v
    H: torch.Tensor  # (B, U, U)
    JK: torch.Tensor  # (B, U, U)
    sigma: torch.Tensor  # (B, U, 1)
    outputs: torch.Tensor  # (B, U, 2) E'p, E'v
    Q: torch.Tensor  # (B, U)
    excess: torch.Tensor  # (B, U) E'v - f
    margins: torch.Tensor  # (B,) y f, float64
    signs: torch.Tensor  # (B,) y, float64

    @property
    def loss(self) -> float:
        return float(torch.logaddexp(torch.zeros_like(self.margins), -self.margins).sum())


def forward(
    places: torch.Tensor,
    R: torch.Tensor,
    log_counts: torch.Tensor,
    signs: torch.Tensor,
    scale: float = 1.0,
    first_scale: float = 1.0,
) -> _LayerPass:
    """A-DEF-5; R comes as rows of W and loses its means here. A place without a token has log count -inf."""
    means = R.mean(dim=2, keepdim=True)
    R -= means
    U, d = R.shape[1] - 2, R.shape[2]
    K = _inner(R)
    K, ac, s = K[:, :U, :U], K[:, :U, U:], means[:, :U]
    H = torch.baddbmm(K, s, s.transpose(1, 2), beta=first_scale, alpha=first_scale * d)
    H = H.add_(log_counts[:, None]).softmax(dim=2)
    JK = torch.baddbmm(K, H, K)
    variance = (torch.linalg.vecdot(H, JK) + JK.diagonal(dim1=1, dim2=2)).clamp_(min=0.0) / d
    sigma = (variance + EPSILON).sqrt_()[:, :, None]
    outputs = torch.baddbmm(ac, H, ac) / sigma
    logits, values = scale * outputs[:, :, 0] + log_counts, outputs[:, :, 1]
    Q = logits.softmax(dim=1)
    # Against the value of the heaviest token no digits cancel, however little weight the others have.
    top = values.gather(1, logits.argmax(dim=1, keepdim=True))
    excess = values - top
    beyond = (Q * excess).sum(dim=1, keepdim=True)
    margins = signs * (top + beyond)[:, 0].double()
    return _LayerPass(places, R, s, ac, H, JK, sigma, outputs, Q, excess.sub_(beyond), margins, signs)


def backward(
    at: _LayerPass, n: int, scale: float = 1.0, first_scale: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor, float]:
    """A-DEF-6 for a batch of n sequences; uses up the arrays of the layer.

    Returns places in W, the gradient by the rows there, and the loss.
    """
    (B, U, _), d = at.H.shape, at.R.shape[2]
    rate = (-at.signs * torch.sigmoid(-at.margins) / n).to(at.R)[:, None]
    by_value = rate * at.Q
    by_outputs = torch.stack([by_value * at.excess * scale, by_value], dim=2)
    omega = (by_outputs * at.outputs).sum(dim=2, keepdim=True) / (d * at.sigma**2)
    by_outputs /= at.sigma
    by_H = at.JK.mul_(-omega).baddbmm_(by_outputs, at.ac.transpose(1, 2))
    # The softmax backwards, by differences from its heaviest column for the same reason as above.
    by_H -= by_H.gather(2, at.H.argmax(dim=2, keepdim=True))
    by_H -= torch.linalg.vecdot(at.H, by_H)[:, :, None]
    by_K = by_H.mul_(at.H).mul_(first_scale)
    by_means = torch.bmm(by_K, at.s) + torch.bmm(by_K.transpose(1, 2), at.s)
    weighted = at.H * omega
    by_K -= weighted
    M = by_K.new_empty(B, U + 2, U + 2)
    M[:, :U, :U] = torch.baddbmm(by_K, weighted.transpose(1, 2), at.H, alpha=-1.0)
    M[:, :U, :U] += by_K.transpose(1, 2)
    M.diagonal(dim1=1, dim2=2)[:, :U] -= omega[:, :, 0]
    M[:, :U, U:] = torch.baddbmm(by_outputs, at.H.transpose(1, 2), by_outputs)
    M[:, U:, :U] = M[:, :U, U:].transpose(1, 2)
    M[:, U:, U:] = 0.0
    by_rows = torch.bmm(M, at.R)
    by_rows[:, :U] += by_means
    return at.places.view(-1), by_rows.view(-1, d), at.loss


def _inner(R: torch.Tensor) -> torch.Tensor:
    """R R' of each sequence; numpy sees that the factors are one array, and takes half of the products."""
    K = R.new_empty(R.shape[0], R.shape[1], R.shape[1])
    rows = R.numpy()
    with np.errstate(over="ignore", invalid="ignore"):  # the loss shows that a training diverges
        np.matmul(rows, rows.transpose(0, 2, 1), out=K.numpy())
    return K


def similar(sizes: np.ndarray, d: int) -> Iterator[np.ndarray]:
    """Sequences in groups of similar size, the largest first, so that little is padded."""
    order = np.argsort(-sizes, kind="stable")
    first = 0
    while first < len(order):
        U = int(sizes[order[first]]) + 2
        many = max(1, GROUP // (U * (2 * d + 6 * U)))
        yield order[first : first + many]
        first += many
