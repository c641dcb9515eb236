"""The papers: a folder for each with its statements and figures, and what checks, draws and hunts them."""

from hardmax.papers.registry import Paper

__all__ = ["Paper"]
