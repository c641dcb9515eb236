"""Reviews of made-up words: some speak for a class, most for none."""

import numpy as np
import pytest


def drawn(n: int, seed: int, classes: int = 2) -> tuple[list[str], np.ndarray]:
    """Texts of 30 words, about 3 of them from the 10 words of their class."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=n)
    own = [[f"{'abcdef'[k]}word{j}" for j in range(10)] for k in range(classes)]
    common = [f"word{j}" for j in range(200)]
    texts = []
    for label in labels:
        words = rng.choice(common, size=30).tolist()
        for at in range(30):
            if rng.random() < 0.1:
                words[at] = own[label][rng.integers(10)]
        texts.append(" ".join(words).capitalize() + "!")
    return texts, labels


@pytest.fixture(scope="session")
def reviews():
    """Texts to train on and to test on, of two classes."""
    return drawn(400, 0), drawn(200, 1)


@pytest.fixture(scope="session")
def draw():
    """The function that draws texts."""
    return drawn
