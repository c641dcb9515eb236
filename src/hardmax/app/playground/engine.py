"""The engine behind the page: one pure function from a question to its answer."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from hardmax._lib.arguments import check_arguments
from hardmax.app.playground import plane, protocol, scenes, sentences, words
from hardmax.app.playground.plane import FIELDS, FINEST, LOG_TIME, NORMS, RULES, STARTS, STEPS, rule
from hardmax.app.playground.protocol import listed, number, one_of, problem_of, vector
from hardmax.app.playground.sentences import RATE as SENTENCE_RATE
from hardmax.app.playground.sentences import STEPS as SENTENCE_STEPS
from hardmax.app.playground.sentences import sentences_of
from hardmax.app.playground.words import BATCH, SEED, D, kept_of, texts_of

if TYPE_CHECKING:
    from hardmax.dynamics.optim import Optimizer


def spelled(step: Optimizer) -> str:
    """Return an optimizer as Python code, with the options that differ from its defaults."""
    own = [each for each in fields(step) if each.name != "lr" and getattr(step, each.name) != each.default]
    said = [repr(step.lr), *(f"{each.name}={getattr(step, each.name)!r}" for each in own)]
    return f"hm.optim.{type(step).__name__}({', '.join(said)})"


def state_of(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the state of a message."""
    state = message.get("state")
    if not isinstance(state, dict):
        raise ValueError(f"state must be an object, got {state!r:.40}")
    return state


def python(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return lines of Python that make what a state of the page shows."""
    state = state_of(message)
    scene = one_of(state, "scene", "plane", ("plane", "sentences", "words"))
    lines = {"plane": _plane, "sentences": _sentences, "words": _words}[scene](state)
    return {"lines": ["import hardmax as hm", *lines]}


def _plane(state: Mapping[str, Any]) -> list[str]:
    problem = problem_of(state)
    given = state["problem"]
    norm = one_of(state, "norm", "l2", NORMS)
    rate = number(state, "rate", 0.1, 1e-4, 100.0)
    span = number(state, "span", 4.0, 1e-6, 1e6)
    named = [
        one_of({"rule": name}, "rule", "", RULES) for name in listed(state.get("rules"), "rules", len(RULES))
    ]
    starts = [vector(each, "each start") for each in listed(state.get("starts"), "starts", STARTS)]
    loss = "" if problem.loss.name == "logistic" else f", loss={problem.loss.name!r}"
    aside = "" if norm == "l2" else f", norm={norm!r}"
    lines = [
        "import matplotlib.pyplot as plt",
        "import numpy as np",
        "",
        f"keys = {given['keys']!r}",
        f"scores = {given['scores']!r}",
        f"problem = hm.Problem(keys, scores{loss})",
        f"found = hm.solve(problem{aside})  # every direction that attracts, each with a proof",
        "print(found)",
        f"starts = {starts!r}",
        "runs = {}",
    ]
    for name in named:
        if name == "flow":
            call = f"hm.flow(problem, until_log_time={LOG_TIME:g}, start=start)"
        else:
            step = spelled(rule(name, rate, norm))
            call = f"hm.train(problem, {step}, steps={STEPS}, record=1, start=start)"
        lines.append(f"runs[{name!r}] = [{call} for start in starts]")
    lines += ["for name, each in runs.items():", "    print(name, [str(run.selection) for run in each])"]
    return [*lines, "", "figure, axes = plt.subplots()", f"span = {span!r}", *_basins(state, norm), *_DRAWN]


def _basins(state: Mapping[str, Any], norm: str) -> list[str]:
    """Return the lines that draw the colored field, if the page shows one."""
    name = state.get("field")
    if name is None:
        return []
    one_of(state, "field", "flow", FIELDS)
    loss = state["problem"].get("loss", "logistic")
    return [
        f'posed = {{"keys": keys, "scores": scores, "loss": {loss!r}}}',
        f'question = {{"ask": "field", "problem": posed, "rule": {name!r}, "norm": {norm!r}, "span": span}}',
        f'grid = hm.playground.answer({{**question, "level": {FINEST}}})["grid"]',
        'look = {"extent": (-span, span, -span, span), "origin": "lower", "alpha": 0.3}',
        'axes.imshow(np.ma.masked_less(grid, 0), cmap="Set2", vmin=0, vmax=8, **look)',
    ]


_DRAWN = [
    "for own in keys:",
    "    axes.scatter(*zip(*own), zorder=3)",
    "for each in found.selections:",
    "    if each.direction is not None:",
    '        axes.plot(*zip((0, 0), 2 * span * each.direction), "--")',
    "for each in runs.values():",
    "    for run in each:",
    '        axes.plot(*run.points.T, color="black")',
    'axes.set(xlim=(-span, span), ylim=(-span, span), aspect="equal")',
    "plt.show()",
]


def _sentences(state: Mapping[str, Any]) -> list[str]:
    kept = list(sentences_of(state))
    prompt = state.get("prompt")
    lines = [
        "",
        f"sentences = {kept!r}",
        "print(hm.nexttoken.check(sentences))",
        "analysis = hm.nexttoken.analyze(sentences, repair=True)",
        "if analysis.legal:",
        "    samples = hm.nexttoken.Samples.from_sentences(sentences)",
        f"    steps = {SENTENCE_STEPS} if analysis.teaches_attention else 0",
        f"    run = hm.nexttoken.training.train(samples, steps=steps, rate={SENTENCE_RATE}, n=analysis.n)",
    ]
    if isinstance(prompt, str) and prompt.split():
        lines.append(f"    print(hm.nexttoken.predict_next(run.predictor, {prompt!r}))")
    return lines


def _words(state: Mapping[str, Any]) -> list[str]:
    texts, labels = kept_of(state)
    epochs = int(number(state, "epochs", 50, 1, 200))
    rate = number(state, "rate", 0.01, 1e-5, 1.0)
    return [
        "",
        f"texts = {texts!r}",
        f"labels = {labels!r}",
        "corpus = hm.Corpus.from_sequences(texts, labels)",
        f"step = hm.optim.AdamW({rate!r})",
        f"options = dict(epochs={epochs}, batch={BATCH}, rng={SEED})",
        f"trained = hm.embeddings.minibatch.train_embeddings(corpus, {D}, step, **options)",
        "print(trained.top(10))",
    ]


def file(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a file of the state's data: its name, its content, and the command that reads it."""
    state = state_of(message)
    scene = one_of(state, "scene", "plane", ("plane", "sentences", "words"))
    if scene == "sentences":
        name, content = "sentences.txt", "\n".join(sentences_of(state)) + "\n"
        return {"name": name, "content": content, "command": f"hardmax ntp check {name}"}
    if scene == "words":
        texts, labels = texts_of(state)
        rows = [f'"{" ".join(words)}",{y}' for words, y in zip(texts, labels, strict=True)]
        name, content = "texts.csv", "\n".join(["text,label", *rows]) + "\n"
        return {
            "name": name,
            "content": content,
            "command": f'hm.embeddings.text_corpus("{name}", min_count=2)',
        }
    problem_of(state)
    name, content = "playground.json", json.dumps(state["problem"]) + "\n"
    return {"name": name, "content": content, "command": f"hardmax solve {name} --flow"}


Asked = Callable[[Mapping[str, Any]], dict[str, Any]]

QUESTIONS: dict[str, Asked] = {
    "tour": scenes.tour,
    "solve": plane.solve,
    "train": plane.train,
    "field": plane.field,
    "gradients": plane.gradients,
    "check": sentences.check,
    "learn": sentences.learn,
    "predict": sentences.predict,
    "words": words.train,
    "python": python,
    "file": file,
}


@check_arguments
def answer(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to a question; a ValueError states what is wrong with it.

    >>> from hardmax.app.playground.engine import answer
    >>> found = answer({"ask": "solve", "problem": {"keys": [[[1, 0], [0, 0]]], "scores": [[1, 0]]}})
    >>> found["selections"][0]["selection"], found["selections"][0]["certified"]
    ((0,), True)
    """
    name = message.get("ask")
    if not isinstance(name, str) or name not in QUESTIONS:
        raise ValueError(f"ask must be one of {', '.join(QUESTIONS)}, got {name!r:.40}")
    return QUESTIONS[name](message)


def reply(raw: bytes) -> bytes:
    """Return the bytes that answer a message, or refuse it."""
    try:
        began = time.process_time()
        found = answer(protocol.read(raw))
        return protocol.pack_answer(found, 1e3 * (time.process_time() - began))
    except ValueError as error:
        return protocol.pack_refusal(str(error))
    except MemoryError:
        return protocol.pack_refusal("there is not enough memory for this question; ask for less")
