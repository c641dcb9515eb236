"""The two-layer model trained by its closed-form gradient (A-DEF-6), on data too small to need torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from hardmax.embeddings import Corpus, TwoLayer, initial_vectors
from hardmax.embeddings.minibatch import EmbeddingTraining
from hardmax.embeddings.minibatch.kernels import update_adamw
from hardmax.embeddings.minibatch.loop import Plan, run
from hardmax.train.steps import AdamW
from hardmax.train.steps.base import settings


class ClosedForm:
    """E, p and v in one vector, so that AdamW goes over them at once; float64."""

    def __init__(self, E: np.ndarray, p: np.ndarray, v: np.ndarray, rule: AdamW) -> None:
        self.shape, self.rule, self.steps = E.shape, rule, 0
        self.x = np.concatenate([E.ravel(), p, v])
        self.first, self.second = np.zeros_like(self.x), np.zeros_like(self.x)

    @property
    def parameters(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """E, p and v, as views."""
        (S, d), rest = self.shape, self.x[-2 * self.shape[1] :]
        return self.x[: S * d].reshape(S, d), rest[:d], rest[d:]

    def step(self, batch: Corpus, rate: float) -> float:
        """One AdamW step; returns the batch's loss before it."""
        found = TwoLayer().gradients(batch, *self.parameters)
        self.steps += 1
        g = np.concatenate([found.E.ravel(), found.p, found.v])
        update_adamw(self.x, g, self.first, self.second, self.rule.scalars(self.steps, rate))
        return found.loss

    def observe(self) -> tuple[np.ndarray, np.ndarray]:
        """a = E p and c = E v of the raw embedding."""
        E, p, v = self.parameters
        return E @ p, E @ v

    def arrays(self) -> dict[str, np.ndarray]:
        """All that the next step depends on."""
        return {"x": self.x, "first": self.first, "second": self.second, "steps": np.array(self.steps)}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Go back to where `arrays` was taken."""
        self.x, self.first, self.second = arrays["x"], arrays["first"], arrays["second"]
        self.steps = int(arrays["steps"])


def train_closed_form(
    corpus: Corpus,
    d: int,
    rule: AdamW,
    *,
    epochs: int,
    milestones: Sequence[int],
    rng: int,
    checkpoint: Path | None = None,
    checkpoint_every: int = 10,
    progress: Callable[[int, float], None] | None = None,
) -> EmbeddingTraining:
    """Train E, p and v of the two-layer model as `train_two_layer` does, but sequence by sequence."""
    batch, draws, rate = 128, np.random.default_rng(rng), rule.rate
    assert isinstance(rate, float)
    model = ClosedForm(*initial_vectors(corpus.S, d, rng=draws), rule)
    seed = int(draws.integers(2**63))
    plan = Plan(rate, milestones, epochs, batch, 0.0, seed, checkpoint, checkpoint_every)
    done = run(model, corpus, plan, {"model": "two layers, closed form", **settings(rule)}, progress)
    loss = TwoLayer().gradients(corpus, *model.parameters).loss
    return done.training(model.parameters, loss, rule, batch, layers=2)
