"""
Is my next-token dataset realizable?
====================================

A one-layer transformer that predicts the next word can learn some sets of sentences completely, and others
never, however long it is trained. This tutorial checks a set of sentences, finds the violations, keeps the
part without them, trains on it, and explains the model's predictions.
"""

import matplotlib.pyplot as plt

import hardmax as hm

# %%
# The data
# --------
#
# Five notes on how to make tea, one sentence each. Every beginning of a sentence is a question, and the next
# word is the answer: "boil" leads to "pour", "boil pour" to "steep". The last note contradicts the first.

notes = [
    "boil pour steep wait wait",
    "pour steep wait wait",
    "steep wait wait",
    "wait drink",
    "boil pour steep wait drink",
]

# %%
# Check
# -----
#
# A dataset must meet four conditions. A word alone has one next word, and no two words share it: this map is
# called the *collocation*. Every sentence has one next word. Some word of the sentence leads there by the
# collocation: that word decides. And if, under the same last word, one word decides over another, the
# reverse never happens.

analysis = hm.nexttoken.analyze(notes)
print("realizable:", analysis.realizable)
for violation in analysis.violations:
    print(f"{violation.kind} ({violation.count}): {violation.witnesses[0]}")

# %%
# Each kind of violation has a count and a witness in the words of the data.
#
# * *nondeterministic*: "boil pour steep wait" is followed by "wait" in the first note and by "drink" in the
#   last.
# * *missing_collocation*: no sentence begins with "drink", so its next word is unknown.
# * *confused* and *cycle* follow from the first. When the last word is "wait", "steep" decides over "wait"
#   in one note and "wait" over "steep" in the other, and no attention can do both.
#
# Repair
# ------
#
# ``realizable_part`` keeps a beginning of each sentence, as long as possible, such that together they pass.
# A word that begins no sentence is a smaller problem: with ``repair=True`` it gets a next word that nothing
# else leads to.

part = hm.nexttoken.realizable.realizable_part(notes, repair=True)
kept = [" ".join(part.sentences.words(i)) for i in range(part.sentences.n)]
repaired = hm.nexttoken.analyze(kept, repair=True)
print(f"kept {part.samples} of {part.of_samples} questions:", *kept, sep="\n  ")
print("realizable:", repaired.realizable)
words = repaired.trie.sentences.vocabulary
pairs = zip(words, repaired.words(repaired.n), strict=True)
print("collocation:", ", ".join(f"{x} -> {y}" for x, y in pairs))
print("repaired:", repaired.words(repaired.repaired))

# %%
# One question of 14 was removed, the end of the last note. The repair chose "drink -> boil"; the other four
# arrows are in the data.
#
# Train
# -----
#
# The model has two matrices. W_ov turns the attended word into the next word; W_kq determines how much
# attention each word gets for a given last word. They are trained one after the other, for 900 and 10,000
# steps.

samples = hm.nexttoken.Samples.from_sentences(kept)
model = samples.model()
run = hm.train(model, model.optimizers, steps=10_000, n=repaired.n)
print(f"loss {run.loss:.1e}; attention on the word that decides: at least {run.masses.min():.6f}")
print(f"1 - cos between W_kq and its max-margin solution: {run.misalignment_kq:.2e}")
print(f"the law of late training predicts {run.late.predicted_misalignment(run.rate * 10_000):.2e}")

# %%
# The loss is practically zero, and in every sentence the attention is on the right word. W_kq itself grows
# forever, in the direction of the shortest matrix that lets every deciding word lead by 1. The distance to
# that direction falls like one over the square of the number of steps.
#
# Predict
# -------

questions = ["boil pour steep wait", "pour boil steep wait", "boil wait", "pour drink"]
answers = [run.predict(question) for question in questions]
for question, answer in zip(questions, answers, strict=True):
    word, probability = answer.next(1)[0]
    print(f"{question} -> {word} ({probability:.3f}, {answer.rule})\n    {answer.reason}")

# %%
# The first sentence is in the data. The second is not, but its answer follows from the order of the words
# under "wait", in which "steep" is on top. The third is *ambiguous*: under "wait" the data never compare the
# two words, so the model's preference is an accident of training. The fourth is a *tie*: "drink" is never a
# last word in the data, and one of two equally probable answers is shown. An unknown word is an error:

try:
    run.predict("boil milk")
except ValueError as error:
    print(error)

# %%
# The picture shows W_kq, one column for each last word, and its approach to the max-margin solution. Under
# "wait" (fourth column) attention goes to "steep", regardless of the other words.

figure, (left, right) = plt.subplots(1, 2, figsize=(8.5, 3.6), layout="constrained")
W = run.W_kq.toarray()
image = left.imshow(W, cmap="PuOr", vmin=-abs(W).max(), vmax=abs(W).max())
left.set(xticks=range(5), xticklabels=words, yticks=range(5), yticklabels=words)
left.set(xlabel="last word", ylabel="word attended to", title="W_kq")
figure.colorbar(image, ax=left)
seen = run.observe()
right.loglog(seen.times[1:], seen.misalignment[1:], label="measured")
late = seen.times[seen.times >= 100]
law = [run.late.predicted_misalignment(run.rate * t) for t in late]
right.loglog(late, law, "--", label="law of late training")
right.set(xlabel="step", title="1 - cos to the max-margin solution")
right.legend()
plt.show()

# %%
# In a terminal, ``hardmax ntp check notes.txt``, ``hardmax ntp train`` and ``hardmax ntp predict`` do the
# same for a file of sentences, one to a line.
