"""Sentences (paper C): what `hardmax ntp check`, training and prediction say of sentences that are typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from hardmax import nexttoken
from hardmax.app.playground.protocol import listed
from hardmax.app.results.next_token import predict_next
from hardmax.app.results.next_token_check import COUNTED, told_witness
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
    given = listed(message.get("sentences"), "sentences", MOST_SENTENCES)
    for each in given:
        if not isinstance(each, str) or len(each) > LONGEST or len(each.split()) > WORDS:
            raise ValueError(
                f"each sentence must be at most {WORDS} words and {LONGEST} characters, got {each!r:.40}"
            )
    kept = tuple(" ".join(each.split()) for each in given if each.split())
    if not kept:
        raise ValueError("sentences must hold one with a word in it, got none; type one")
    return kept


def check(message: Mapping[str, Any]) -> dict[str, Any]:
    """Check whether sentences are realizable; return violations in words and the order under each query."""
    found = check_sentences(list(sentences_of(message)))
    analysis = found.analysis
    word = analysis.text.vocabulary
    edges = [
        {"query": word[q], "edges": [[word[o], word[x]] for o, x in pairs]}
        for q, pairs in analysis.orders.edges().items()
    ]
    violations = [
        {
            "kind": each.kind,
            "count": each.count,
            "what": COUNTED[each.kind],
            "witnesses": [told_witness(each.kind, witness) for witness in each.witnesses],
        }
        for each in analysis.violations
    ]
    return {
        **found.json(),
        "graph": edges,
        "words": word,
        "told": violations,
        "learnable": _mended(sentences_of(message)).legal,
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
                "attention": [{a.word: round(a.weight, 6) for a in each.attended} for each in predictions],
                "next": [each.next(1)[0] for each in predictions],
            }
        )
    return {
        "sentences": [
            {"words": text.split(), "next": samples.vocabulary[samples.target[k]]}
            for k, text in zip(rows, texts, strict=True)
        ],
        "frames": frames,
        "loss": run.loss,
        "best_loss": run.best_loss,
        "misalignment": run.misalignment_kq,
        "steps": run.steps,
        "event": run.event,
    }


def predict(message: Mapping[str, Any]) -> dict[str, Any]:
    """Predict the next token of a prompt after training, with the reason."""
    run, prompt = _trained(sentences_of(message)), message.get("prompt")
    if not isinstance(prompt, str) or not prompt.split() or len(prompt) > LONGEST:
        raise ValueError(f"prompt must be one word or more, got {prompt!r:.40}; type some of the sentences'")
    return predict_next(run.predictor, prompt).json()


def _mended(sentences: tuple[str, ...]) -> Analysis:
    """Analyze sentences, repaired: words that begin none get a next token."""
    return nexttoken.analyze(list(sentences), repair=True)


@lru_cache(maxsize=16)
def _trained(sentences: tuple[str, ...]) -> Training:
    analysis = _mended(sentences)
    if not analysis.legal:
        kinds = ", ".join(each.kind.replace("_", " ") for each in analysis.violations)
        raise ValueError(f"sentences must be realizable to be learnt, got {kinds}; fix what the list names")
    samples = nexttoken.Samples.from_sentences(list(sentences))
    # where no sentence goes on after two different words, attention has nothing to learn
    steps = STEPS if analysis.teaches_attention else 0
    return nexttoken.training.train(samples, steps=steps, rate=RATE, n=analysis.n)
