"""The figures of the trained-embeddings paper; `hardmax.papers` says which file holds which."""
