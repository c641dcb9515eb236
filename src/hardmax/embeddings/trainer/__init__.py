"""Mini-batch training of the one-layer model: AdamW and SGD in two passes over E (A-TRAIN-1)."""

from hardmax.embeddings.trainer.batches import epoch_order
from hardmax.embeddings.trainer.optimisers import SGD, AdamW
from hardmax.embeddings.trainer.result import EmbeddingTraining, LevelMeans
from hardmax.embeddings.trainer.schedule import rate_at
from hardmax.embeddings.trainer.train import train_embeddings

__all__ = [
    "SGD",
    "AdamW",
    "EmbeddingTraining",
    "LevelMeans",
    "epoch_order",
    "rate_at",
    "train_embeddings",
]
