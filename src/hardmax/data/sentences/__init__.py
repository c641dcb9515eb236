"""Sentences: read, counted in a trie, and taken apart into samples with a next token (paper C)."""
