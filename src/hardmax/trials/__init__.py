"""Many trials: a function of (parameters, seed) over a grid, on a laptop or a cluster."""
