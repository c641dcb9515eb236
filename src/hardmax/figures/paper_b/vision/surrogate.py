"""Images that stand in for CIFAR-10 and the one-layer model trained on them, in numpy.

An image is 64 patches of 48 numbers: noise, one salient patch that shows the class, and four distractors that
show some class without being salient. One layer with four heads reads them through a fixed [CLS]; trained are
W_Q and W_K of every head and a classifier of what it mixes, with cross-entropy and Adam.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hardmax.figures.paper_b.vision.course import Course, measured

T, D, CLASSES, HEADS, WIDTH = 64, 48, 4, 4, 12
TRAIN, TEST, BATCH, RATE = 1500, 500, 100, 3e-4


class Pictures(NamedTuple):
    """Patches (n, T, D), classes and where the salient patch is."""

    patches: np.ndarray
    classes: np.ndarray
    salient: np.ndarray


def draw_pictures(n: int, chance: np.random.Generator, directions: np.ndarray) -> Pictures:
    """Images of the classes whose directions are given, the last of which is saliency."""
    patches = chance.normal(size=(n, T, D)) / D**0.5
    classes = chance.integers(0, CLASSES, size=n)
    places = np.argsort(chance.random((n, T)), axis=1)[:, :5]
    every = np.arange(n)
    patches[every, places[:, 0]] = 3.0 * (directions[classes] + 0.7 * directions[-1])
    for k in range(1, 5):
        patches[every, places[:, k]] = 2.4 * directions[chance.integers(0, CLASSES, size=n)]
    return Pictures(patches, classes, places[:, 0])


def shown(test: Pictures) -> list[int]:
    """The images whose maps are drawn: the first of three classes."""
    return [int(np.argmax(test.classes == c)) for c in range(3)]


def train(
    start: float, name: str, epochs: int, seed: int, tell: Callable[[float], None]
) -> tuple[Course, Pictures]:
    """The course of a training from W_Q and W_K of standard deviation ``start``, and the test images."""
    chance = np.random.default_rng(seed)
    directions = chance.normal(size=(CLASSES + 1, D))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    seen, test = (draw_pictures(n, chance, directions) for n in (TRAIN, TEST))
    cls = chance.normal(size=D)
    cls *= D**0.5 / np.linalg.norm(cls)
    W_Q, W_K = start * chance.normal(size=(2, HEADS, WIDTH, D))
    x = [W_Q, W_K, np.zeros((HEADS, CLASSES, D))]
    adam = _Adam(x)
    rows = [_look(x, cls, test)]
    for epoch in range(epochs):
        for batch in np.array_split(chance.permutation(TRAIN), TRAIN // BATCH):
            adam.step(_gradients(x, cls, seen.patches[batch], seen.classes[batch]))
        rows.append(_look(x, cls, test))
        tell((epoch + 1) / epochs)
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    return Course(name, *columns), test


def _attend(x: list[np.ndarray], cls: np.ndarray, patches: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights (n, heads, T), and what each head mixes, (n, heads, D)."""
    queries = np.einsum("hwd,d->hw", x[0], cls)
    u = np.einsum("hwd,hw->hd", x[1], queries) / WIDTH**0.5
    logits = np.matmul(patches, u.T).transpose(0, 2, 1)
    s = np.exp(logits - logits.max(axis=2, keepdims=True))
    s /= s.sum(axis=2, keepdims=True)
    return s, s @ patches


def _gradients(
    x: list[np.ndarray], cls: np.ndarray, patches: np.ndarray, classes: np.ndarray
) -> list[np.ndarray]:
    """Of the mean cross-entropy, by W_Q, W_K and the classifiers; attention's relative to the top patch."""
    s, mixed = _attend(x, cls, patches)
    out = np.einsum("hcd,nhd->nc", x[2], mixed)
    out = np.exp(out - out.max(axis=1, keepdims=True))
    out /= out.sum(axis=1, keepdims=True)
    out[np.arange(len(out)), classes] -= 1.0
    out /= len(out)
    by_s = np.einsum("nc,hcd->nhd", out, x[2]) @ patches.transpose(0, 2, 1)
    by_s -= np.take_along_axis(by_s, s.argmax(axis=2)[..., None], axis=2)
    by_logits = s * (by_s - (s * by_s).sum(axis=2, keepdims=True))
    by_u = (by_logits @ patches).sum(axis=0) / WIDTH**0.5  # (heads, D)
    queries = np.einsum("hwd,d->hw", x[0], cls)
    return [
        np.einsum("hwd,hd->hw", x[1], by_u)[:, :, None] * cls,
        queries[:, :, None] * by_u[:, None, :],
        np.einsum("nc,nhd->hcd", out, mixed),
    ]


def _look(x: list[np.ndarray], cls: np.ndarray, test: Pictures) -> tuple[float | np.ndarray, ...]:
    s, mixed = _attend(x, cls, test.patches)
    found = np.einsum("hcd,nhd->nc", x[2], mixed).argmax(axis=1)
    sparsity, head_sparsity, with_self, maps = measured(s, own=False)
    each = np.einsum("hwd,hwe->hde", x[1], x[0])
    norm, head_norm = float(np.linalg.norm(each.sum(axis=0))), float(np.linalg.norm(each))
    accuracy = float(np.mean(found == test.classes))
    return sparsity, head_sparsity, with_self, norm, head_norm, accuracy, maps[shown(test)]


class _Adam:
    """Adam with its usual constants, on a list of arrays in place."""

    def __init__(self, x: list[np.ndarray]) -> None:
        self.x, self.steps = x, 0
        self.first, self.second = [np.zeros_like(a) for a in x], [np.zeros_like(a) for a in x]

    def step(self, gradients: list[np.ndarray]) -> None:
        self.steps += 1
        for x, g, m, v in zip(self.x, gradients, self.first, self.second, strict=True):
            m += 0.1 * (g - m)
            v += 0.001 * (g * g - v)
            corrected = np.sqrt(v / (1 - 0.999**self.steps)) + 1e-8
            x -= RATE * (m / (1 - 0.9**self.steps)) / corrected
