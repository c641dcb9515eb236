"""Paper A, Attention with Trained Embeddings Provably Selects Important Tokens."""
