"""The statements of the max-margin paper; `hardmax.papers` says which file holds which."""
