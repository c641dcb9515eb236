"""A small corpus of labelled texts, made of a few patterns, for those who have none at hand."""

from __future__ import annotations

import random

_GOOD = ["wonderful", "moving", "funny", "brilliant", "warm", "charming", "gripping", "honest"]
_BAD = ["boring", "awful", "clumsy", "dull", "tedious", "flat", "shallow", "noisy"]
_MIXED = ["long", "strange", "loud", "slow", "modern", "quiet"]
_THINGS = ["film", "story", "actor", "scene", "ending", "music", "plot", "camera", "dialogue", "hero"]
_FRAMES = (
    "the {thing} was {word} and the {other} {mixed}",
    "a {word} {thing} with a {mixed} {other}",
    "i found the {thing} {word} though the {other} was {mixed}",
    "what a {word} {thing} and what a {other}",
    "{mixed} {other} but a {word} {thing}",
)
COUNT, SEED = 320, 7


def sample_texts(count: int = COUNT) -> list[list[str | int]]:
    """Texts with labels, half of each; now and then one uses a word of the other kind.

    >>> from hardmax.playground.texts import sample_texts
    >>> len(sample_texts()), {label for _, label in sample_texts()}
    (320, {1, -1})
    """
    draw = random.Random(SEED)
    texts: list[list[str | int]] = []
    for k in range(count):
        label = 1 if k % 2 == 0 else -1
        own = _GOOD if label == 1 else _BAD
        words = own if draw.random() > 0.08 else (_BAD if label == 1 else _GOOD)
        # the first words of each list are the frequent ones, so that some say more than others
        word = words[min(int(draw.expovariate(0.45)), len(words) - 1)]
        thing, other = draw.sample(_THINGS, 2)
        frame = draw.choice(_FRAMES)
        texts.append([frame.format(word=word, thing=thing, other=other, mixed=draw.choice(_MIXED)), label])
    return texts
