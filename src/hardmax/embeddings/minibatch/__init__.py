"""Mini-batch training of the one- and two-layer models."""

from hardmax.dynamics.blocks import epoch_order
from hardmax.embeddings.minibatch.result import Deciles, EmbeddingTraining, LevelMeans, TokenObservables
from hardmax.embeddings.minibatch.train import rate_at, train_embeddings

__all__ = [
    "Deciles",
    "EmbeddingTraining",
    "LevelMeans",
    "TokenObservables",
    "epoch_order",
    "rate_at",
    "train_embeddings",
]
