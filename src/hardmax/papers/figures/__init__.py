"""The papers' figures: computed numbers, claims about them, and pictures."""
