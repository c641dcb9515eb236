"""The models of paper A as `hm.train` and `hm.flow` take them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hardmax.data.corpora.corpus import Corpus
from hardmax.dynamics.driver import known_options
from hardmax.dynamics.models import Model
from hardmax.embeddings.first_step import initial_vectors
from hardmax.embeddings.gram import GramFlow, GramState, descend_gram, flow_gram
from hardmax.embeddings.minibatch import train_embeddings
from hardmax.embeddings.one_layer import BLOCKS, descend_embeddings
from hardmax.embeddings.two_layer import TwoLayerGram, descend_two_layer

OPTIONS = ("batch", "rng", "milestones", "until_loss", "progress", "checkpoint", "checkpoint_every")


@dataclass(frozen=True, eq=False)
class EmbeddingModel(Model):
    """Embeddings E, query p and readout v of attention on a corpus; `Corpus.model` makes it.

    With ``epochs=`` training takes shuffled mini-batches, with ``steps=`` all sequences, or batches in turn.
    A start is (E, p, v), drawn at random by default, or their inner products, where d may be infinite.

    >>> import hardmax as hm
    >>> corpus = hm.Corpus.from_sequences([[0, 2], [1, 2]], [1, -1])
    >>> corpus.model(d=8)
    EmbeddingModel(n=2, S=3, d=8, layers=1, blocks=('E', 'p', 'v'))
    >>> trained = hm.train(corpus.model(d=8), hm.optim.AdamW(lr=0.1), epochs=20, batch=2, rng=0)
    >>> trained.loss < 0.1
    True
    """

    corpus: Corpus
    d: int | None
    layers: int = 1
    blocks: tuple[str, ...] = BLOCKS
    start: Any = None
    scales: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.layers not in (1, 2):
            raise ValueError(f"layers must be 1 or 2, got {self.layers!r}")
        unknown = [name for name in self.blocks if name not in BLOCKS]
        if unknown or not self.blocks:
            raise ValueError(f"blocks must be some of E, p and v, got {self.blocks!r}")
        if self.d is None and self.start is None:
            raise ValueError("d must be given where no start is; choose the dimension of the embeddings")

    def __repr__(self) -> str:
        shape = f"n={self.corpus.n}, S={self.corpus.S}, d={self.d}"
        return f"EmbeddingModel({shape}, layers={self.layers}, blocks={self.blocks})"

    def _train(
        self, optimizer: Any, *, epochs: int | None = None, steps: int | None = None, **options: Any
    ) -> Any:
        """Train by mini-batches (``epochs``) or by steps (``steps``)."""
        if (epochs is None) == (steps is None):
            raise ValueError("give epochs (mini-batches) or steps (on the whole corpus, or batches in turn)")
        is_gram = isinstance(self.start, GramState | TwoLayerGram)
        more = ("record",) if is_gram or epochs is None else ("dtype", "workers")
        known_options("embeddings", options, (*OPTIONS, *more))
        by = dict(zip(self.blocks, self.each(optimizer), strict=True))
        if steps is None and not is_gram:
            d: Any = self.d if self.start is None else len(self.start[1])
            options |= {"start": self.start, "layers": self.layers, "epochs": epochs}
            return train_embeddings(self.corpus, d, by, **self.scales, **options)
        start = self._vectors(options.get("rng"))
        how = {"rate": by, "train": self.blocks, "steps": steps, "epochs": epochs, **self.scales, **options}
        if isinstance(start, TwoLayerGram) or self.layers == 2:
            return descend_two_layer(self.corpus, start, **how)
        if isinstance(start, GramState):
            return descend_gram(self.corpus, start, **how)
        return descend_embeddings(self.corpus, *start, **how)

    def _flow(self, *, times: Any, rng: Any = None) -> GramFlow:  # type: ignore[override]
        """Follow the gradient flow at the ``times``, by inner products."""
        if self.layers == 2 or isinstance(self.start, TwoLayerGram):
            raise TypeError("hm.flow follows the model of one layer only; train two layers with hm.train")
        state = self._vectors(rng)
        if not isinstance(state, GramState):
            state = GramState.from_vectors(*state)
        return flow_gram(self.corpus, state, times=times, train=self.blocks, **self.scales)

    def _vectors(self, rng: Any) -> Any:
        if self.start is not None:
            return self.start
        if rng is None:
            raise TypeError("rng must be given where the start is drawn; pass rng=0, or start= to the model")
        assert self.d is not None
        return initial_vectors(self.corpus.S, self.d, rng=rng)
