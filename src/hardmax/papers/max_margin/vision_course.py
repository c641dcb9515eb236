"""What both trainings of a vision transformer record: sparsity of its attention and |W|, epoch by epoch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import spearmanr

from hardmax.papers.figures.tables import Table, stacked


@dataclass(frozen=True, eq=False)
class Course:
    """One training. Arrays have a row for the start and one for each epoch.

    The map of an image is the attention of [CLS] on its patches, its own weight dropped and the rest scaled
    to sum to one, averaged over the heads; nnz is the soft sparsity of a map (B-DEF-8), averaged over images.
    """

    name: str
    sparsity: np.ndarray  # nnz / T of maps averaged over heads
    head_sparsity: np.ndarray  # the mean over heads of nnz / T of each
    with_self: np.ndarray  # nnz / (T + 1) with the weight that [CLS] has on itself
    norm: np.ndarray  # |W_Q' W_K| over all heads together: |sum_h W_h|
    head_norm: np.ndarray  # root of sum_h |W_h|^2
    accuracy: np.ndarray  # on the test images
    maps: np.ndarray  # (epochs + 1, images, T) of a few images

    @property
    def epochs(self) -> int:
        """How many epochs it went."""
        return len(self.norm) - 1

    @property
    def growth(self) -> float:
        """|W| at the end over |W| at the start."""
        return float(self.norm[-1] / self.norm[0])

    @property
    def correlation(self) -> float:
        """Spearman's, of nnz / T and |W| over the epochs."""
        return float(spearmanr(self.sparsity, self.norm).statistic)


COLUMNS = ("sparsity", "head_sparsity", "with_self", "norm", "head_norm", "accuracy")


def courses_table(courses: list[Course]) -> Table:
    """All of them below each other."""
    return stacked(
        {
            "run": course.name,
            "epoch": np.arange(course.epochs + 1),
            **{name: getattr(course, name) for name in COLUMNS},
        }
        for course in courses
    )


def maps_table(course: Course, epochs: list[int]) -> Table:
    """Weights of the shown images' patches at some epochs."""
    maps = course.maps[epochs]
    _, images, T = maps.shape
    return {
        "epoch": np.repeat(epochs, images * T),
        "image": np.tile(np.repeat(np.arange(images), T), len(epochs)),
        "patch": np.tile(np.arange(T), len(epochs) * images),
        "weight": maps.ravel(),
    }


def measured(weights: np.ndarray, own: bool) -> tuple[float, float, float, np.ndarray]:
    """sparsity, head_sparsity, with_self and maps of weights (images, heads, tokens).

    ``own`` says that the first token is [CLS] itself.
    """

    def sparsity(s: np.ndarray) -> float:
        """Return nnz of probability vectors along the last axis (B-DEF-8), a mean over their number."""
        return float((1.0 / (s**2).sum(axis=-1)).mean()) / s.shape[-1]

    patches = weights[:, :, 1:] if own else weights
    mean = patches.mean(axis=1)
    maps = mean / mean.sum(axis=1, keepdims=True)
    heads = patches / patches.sum(axis=2, keepdims=True)
    return sparsity(maps), sparsity(heads), sparsity(weights.mean(axis=1)), maps
