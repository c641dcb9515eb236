"""Mini-batch training of the one- and two-layer models (A-TRAIN-1)."""

from hardmax.embeddings.trainer.batches import epoch_order
from hardmax.embeddings.trainer.observables import Deciles, LevelMeans, Observables
from hardmax.embeddings.trainer.optimisers import SGD, AdamW
from hardmax.embeddings.trainer.result import EmbeddingTraining
from hardmax.embeddings.trainer.schedule import rate_at
from hardmax.embeddings.trainer.train import train_embeddings
from hardmax.embeddings.trainer.two_layer import train_two_layer

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
    "train_two_layer",
]
