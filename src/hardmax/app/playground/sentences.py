"""Sentences (paper C): what `hardmax ntp check`, training and prediction say of sentences that are typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from hardmax import nexttoken
from hardmax._lib.json import attributes
from hardmax.app.playground.protocol import listed
from hardmax.app.results.next_token import predict_next
from hardmax.app.results.next_token_check import COUNTED, sentence_of
from hardmax.app.results.next_token_check import check as check_sentences

if TYPE_CHECKING:
    from hardmax.nexttoken import Analysis, Training

MOST_SENTENCES = 60
LONGEST = 400  # characters of a sentence
WORDS = 24  # of a sentence
STEPS, RATE = 4000, 0.05
FRAMES = 40
SHOWN = 40  # sentences whose attention is shown


def sentences_of(message: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the sentences of a message, without empty ones."""
    texts = listed(message.get("sentences"), "sentences", MOST_SENTENCES)
    for text in texts:
        if not isinstance(text, str) or len(text) > LONGEST or len(text.split()) > WORDS:
            raise ValueError(
                f"each sentence must be at most {WORDS} words and {LONGEST} characters, got {text!r:.40}"
            )
    sentences = tuple(" ".join(text.split()) for text in texts if text.split())
    if not sentences:
        raise ValueError("sentences must hold one with a word in it, got none; type one")
    return sentences


def check(message: Mapping[str, Any]) -> dict[str, Any]:
    """Check whether sentences are realizable; return violations in words and the order under each query."""
    report = check_sentences(list(sentences_of(message)))
    word = report.analysis.text.vocabulary
    return {
        **report.json(),
        "graph": [
            {"query": word[q], "edges": [[word[o], word[x]] for o, x in pairs]}
            for q, pairs in report.analysis.orders.edges().items()
        ],
        "words": word,
        "told": [
            {
                **attributes(violation, "kind", "count"),
                "what": COUNTED[violation.kind],
                "witnesses": [sentence_of(violation.kind, witness) for witness in violation.witnesses],
            }
            for violation in report.analysis.violations
        ],
        "learnable": _repaired(sentences_of(message)).legal,
    }


def learn(message: Mapping[str, Any]) -> dict[str, Any]:
    """Train by Algorithm 1; return the attention of every sentence at some steps, and the loss."""
    run = _trained(sentences_of(message))
    samples, times = run.samples, run.times
    rows = [k for k in range(samples.n) if samples.offsets[k + 1] - samples.offsets[k] > 1][:SHOWN]
    texts = [samples.sentence(k) for k in rows]
    at = sorted({round(s * (len(times) - 1) / (FRAMES - 1)) for s in range(FRAMES)})
    frames = []
    for s in at:
        model = replace(run.predictor, values=run.points[s])
        predictions = [model.predict(text) for text in texts]
        frames.append(
            {
                "step": int(times[s]),
                "attention": [{a.word: round(a.weight, 6) for a in p.attended} for p in predictions],
                "next": [p.next(1)[0] for p in predictions],
            }
        )
    return {
        "sentences": [
            {"words": text.split(), "next": samples.vocabulary[samples.target[k]]}
            for k, text in zip(rows, texts, strict=True)
        ],
        "frames": frames,
        "misalignment": run.misalignment_kq,
        **attributes(run, "loss", "best_loss", "steps", "event"),
    }


def predict(message: Mapping[str, Any]) -> dict[str, Any]:
    """Predict the next token of a prompt after training, with the reason."""
    run = _trained(sentences_of(message))
    prompt = message.get("prompt")
    if not isinstance(prompt, str) or not prompt.split() or len(prompt) > LONGEST:
        raise ValueError(f"prompt must be one word or more, got {prompt!r:.40}; type some of the sentences'")
    return predict_next(run.predictor, prompt).json()


def _repaired(sentences: tuple[str, ...]) -> Analysis:
    """Analyze sentences, repaired: words that begin none get a next token."""
    return nexttoken.analyze(list(sentences), repair=True)


@lru_cache(maxsize=16)
def _trained(sentences: tuple[str, ...]) -> Training:
    analysis = _repaired(sentences)
    if not analysis.legal:
        kinds = ", ".join(violation.kind.replace("_", " ") for violation in analysis.violations)
        raise ValueError(f"sentences must be realizable to be learnt, got {kinds}; fix what the list names")
    samples = nexttoken.Samples.from_sentences(list(sentences))
    # where no sentence goes on after two different words, attention has nothing to learn
    steps = STEPS if analysis.teaches_attention else 0
    return nexttoken.training.train(samples, steps=steps, rate=RATE, n=analysis.n)
