"""Training of W = K Q' through its factors K and Q."""
