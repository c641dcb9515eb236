"""
Which words decide?
===================

A classifier for texts that can be put beside TF-IDF with logistic regression, and says which words it chose.
It is the one-layer attention model of the paper on trained embeddings, as a scikit-learn estimator: each word
or pair of words has a logit of attention (does it matter?) and a value (for which class does it speak?), and
the score of a text is the mean of its values, weighed by the softmax of its logits.

The reviews
-----------

With IMDB's reviews in the folder ``HARDMAX_DATA`` this page is about films. Without them it is about texts
drawn at random from made-up words, a surrogate, and says so.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm


def surrogate(n, rng):
    """Texts of common words, of some that lean to one side, and of a few that occur on one side only."""
    rng = np.random.default_rng(rng)
    labels = rng.choice(["negative", "positive"], size=n)
    texts = []
    for label in labels:
        words = [f"common{k}" for k in rng.zipf(1.5, size=60) % 300]
        other = "positive" if label == "negative" else "negative"
        words += [f"{label if rng.random() < 0.7 else other}ish{k}" for k in rng.integers(40, size=5)]
        words += [f"{label}{k}" for k in rng.integers(20, size=rng.binomial(2, 0.3))]
        texts.append(" ".join(rng.permutation(words)))
    return texts, labels


def reviews(folder, each):
    """Some reviews of each of IMDB's halves, as many good as bad; films of one half are not in the other."""
    (file,) = hm.data.find_reviews(folder, "imdb")
    every = list(hm.data.read_labelled(file))  # 12,500 good and as many bad ones, then the same once more
    chosen = [[at + k for at in (half, half + 12_500) for k in range(each)] for half in (0, 25_000)]
    return [([every[k].text for k in part], np.array([every[k].label for k in part])) for part in chosen]


folder = Path(os.environ.get("HARDMAX_DATA", "../shared/data"))
try:
    (texts, labels), (more, truth) = reviews(folder, 2000)
    source = "film reviews of IMDB"
except ValueError:
    (texts, labels), (more, truth) = surrogate(2000, 0), surrogate(2000, 1)
    source = "made-up words (a surrogate: IMDB's reviews are not here)"
print(f"{len(texts):,} {source} to train on, {len(more):,} to test on")

# %%
# Train and test
# --------------
#
# Nothing has to be set. Words and pairs of words that occur in at least two texts are counted by a compiled
# vectoriser on all cores; training takes some passes over the texts.

model = hm.text.AttentionClassifier().fit(texts, labels)
accuracy = model.score(more, truth)
print(f"{len(model.attention_):,} words and pairs; accuracy on texts not seen: {accuracy:.1%}")

# %%
# Why this class?
# ---------------
#
# The score of a text is a sum over its words: share of attention times value. Nothing is left over.

text = more[-1]
why = model.explain(text)
print(why)
print("sum of contributions minus score:", sum(part.contribution for part in why.parts) - why.score)

# %%
# In a notebook ``why`` shows the text with its words in green and red, and ``why.save("why.html")`` writes
# that as a page.
#
# Which words does the model select?
# ----------------------------------
#
# By attention times value, for each class, with the share of their occurrences in texts of it:

chosen = model.top_tokens(8)
print(chosen)

# %%
# Is that an explanation?
# -----------------------
#
# Only as far as the words that are shown suffice. Softmax attention is not sparse: most of a text's words are
# needed for nine tenths of it. So the ten most telling words of each text are kept, and nothing else:

kept = model.evaluate_top_k(more, truth, k=10)
print(kept)

# %%
# Whoever wants short reasons can train for them. Then the ten words are all that the model sees, and the
# reasons are complete; it costs some accuracy.

short = hm.text.AttentionClassifier(top_k=10).fit(texts, labels)
print(f"trained to read ten words: {short.score(more, truth):.1%}; all words: {accuracy:.1%}")

# %%
# The map of words
# ----------------
#
# The paper's first figure draws value and attention of each word against its posterior difference: +1 for a
# word of positive texts only, -1 for one of negative texts only. Here value is drawn against attention, and
# the colour is the posterior difference. Words that lean to one side get values of that sign and much
# attention; words that say nothing lie low in the middle.

followed = model.statistics_.of("positive")
print(f"rank correlation of posterior difference and value: {followed.r_v:.2f}")
print(f"rank correlation of its modulus and attention: {followed.r_p:.2f}")
print(f"signs agree for {followed.sign_accuracy():.1%} of the words that lean clearly")

words = model.word_map("positive")
figure = plt.figure(figsize=(7, 5), layout="constrained")
words.draw(figure)
figure.suptitle(source)
plt.show()

# %%
# Your own texts
# --------------
#
# ``hardmax text train reviews.csv --out model.npz`` does the same for a file of texts and labels, of any
# number of classes; ``hardmax text explain model.npz "Not bad at all!"`` asks the model. The page on the
# classifier has what it is worth beside others on all of IMDB, and the settings.
