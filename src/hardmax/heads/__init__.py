"""Heads and losses: from attention weights to a risk."""

from hardmax.heads.heads import Head, LinearHead, NonlinearHead, Scores
from hardmax.heads.losses import LOSSES, Loss, as_loss

__all__ = ["LOSSES", "Head", "LinearHead", "Loss", "NonlinearHead", "Scores", "as_loss"]
