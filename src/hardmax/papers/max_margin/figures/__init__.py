"""The figures of the max-margin paper; `hardmax.papers` says which file holds which."""
