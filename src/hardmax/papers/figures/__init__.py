"""The papers' figures: what is computed, what is claimed about it, and how it is drawn."""
