"""The figures of the next-token paper; `hardmax.papers` says which file holds which."""
