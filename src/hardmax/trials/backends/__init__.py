"""Clusters as backends of sweeps; each module imports its package when it is imported."""
