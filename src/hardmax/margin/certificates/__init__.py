"""Certificates on disk: written here, and checked here by code that shares nothing with the solvers."""
