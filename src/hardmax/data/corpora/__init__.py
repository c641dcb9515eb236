"""Corpora: labeled sequences of tokens, their statistics, and synthetic ones (paper A)."""
