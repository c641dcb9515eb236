"""Mini-batch training of the one-layer model: AdamW and SGD in two passes over E (A-TRAIN-1)."""

from hardmax.embeddings.trainer.batches import epoch_order
from hardmax.embeddings.trainer.observables import Deciles, LevelMeans, Observables
from hardmax.embeddings.trainer.optimisers import SGD, AdamW
from hardmax.embeddings.trainer.result import EmbeddingTraining
from hardmax.embeddings.trainer.schedule import rate_at
from hardmax.embeddings.trainer.train import train_embeddings

__all__ = [
    "SGD",
    "AdamW",
    "Deciles",
    "EmbeddingTraining",
    "LevelMeans",
    "Observables",
    "epoch_order",
    "rate_at",
    "train_embeddings",
]
