"""
Which words decide?
===================

This tutorial trains a text classifier that names the words it selected, a one-layer attention model as a
scikit-learn estimator. Each word or pair of words has a logit (does it matter?) and a value (which class does
it favor?). The score of a text is the mean of the values of its words, weighted by the softmax of their
logits.

The reviews
-----------

``examples/reviews.csv`` has 600 short film reviews, composed of sentences written for this tutorial. Some of
them praise and complain at once. 400 reviews are for training, 200 for testing. To run a downloaded notebook,
save this file next to it.
"""

import csv
from pathlib import Path

import matplotlib.pyplot as plt

import hardmax as hm

here = Path(__file__ if "__file__" in globals() else "notebook").resolve()
places = [here.with_name("reviews.csv"), *(folder / "examples" / "reviews.csv" for folder in here.parents)]
file = next(place for place in places if place.exists())
with file.open(encoding="utf-8", newline="") as lines:
    rows = list(csv.DictReader(lines))
train, test = rows[:400], rows[400:]
texts, labels = [row["text"] for row in train], [row["label"] for row in train]
more, truth = [row["text"] for row in test], [row["label"] for row in test]
print(f"{len(texts)} reviews for training, {len(more)} for testing; for example:")
print(labels[2], "-", texts[2])

# %%
# Train and test
# --------------
#
# A compiled vectorizer counts the words and pairs of words that occur in at least two texts, and training
# takes a few passes over the texts.

model = hm.text.AttentionClassifier().fit(texts, labels)
accuracy = model.score(more, truth)
print(f"{len(model.attention_):,} words and pairs; accuracy on new reviews: {accuracy:.1%}")

# %%
# Explain a prediction
# --------------------
#
# The score of a text is a sum over its words: attention times value. The contributions add up to the score.

why = model.explain("The music is gorgeous, but the story is thin and tedious.")
print(why)
print("sum of contributions minus score:", sum(part.contribution for part in why.parts) - why.score)

# %%
# In a notebook ``why`` shows the text with colored words, and ``why.save("why.html")`` writes this view as a
# page.
#
# Which words does the model select?
# ----------------------------------
#
# ``top_tokens`` lists them by attention times value, for each class, with the share of their occurrences in
# texts of that class:

chosen = model.top_tokens(8)
print(chosen)

# %%
# Is that an explanation?
# -----------------------
#
# A list of words explains a prediction only if these words suffice to make it. To test this, keep the five
# most informative words of each review, and predict from them alone.

kept = model.evaluate_top_k(more, truth, k=5)
print(kept)

# %%
# A model can also be trained to read only five words. Its list of words is then the complete reason.

short = hm.text.AttentionClassifier(top_k=5).fit(texts, labels)
print(f"trained to read five words: {short.score(more, truth):.1%}; all words: {accuracy:.1%}")

# %%
# The map of words
# ----------------
#
# The *posterior difference* of a word is +1 if it occurs in positive reviews only, and -1 if it occurs in
# negative ones only. The theory predicts that the value of a word follows its posterior difference, and that
# attention follows the modulus.

followed = model.statistics_.of("positive")
print(f"rank correlation of posterior difference and value: {followed.r_v:.2f}")
print(f"rank correlation of its modulus and attention: {followed.r_p:.2f}")
print(f"signs agree for {followed.sign_accuracy():.1%} of the words that lean clearly")

words = model.word_map("positive")
figure = plt.figure(figsize=(7, 5), layout="constrained")
words.draw(figure)
figure.suptitle("600 short reviews: value against attention, colored by posterior difference")
plt.show()

# %%
# Your own texts
# --------------
#
# ``hardmax text train reviews.csv --out model.npz`` does the same for a file of texts and labels with any
# number of classes, and ``hardmax text explain model.npz "Not bad at all!"`` explains one prediction. The
# guide "Classify texts" has the options, and the accuracy on 50,000 reviews of IMDB.
