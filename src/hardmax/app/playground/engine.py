"""The engine behind the page: one pure function from a question to its answer."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import fields
from string import Template
from typing import TYPE_CHECKING, Any

from hardmax._lib.arguments import check_arguments
from hardmax.app.playground import page, plane, protocol, scenes, sentences, words
from hardmax.app.playground.plane import FIELDS, FINEST, LOG_TIME, NORMS, RULES, STARTS, STEPS, rule
from hardmax.app.playground.protocol import listed, number, one_of, problem_of, vector
from hardmax.app.playground.sentences import RATE as SENTENCE_RATE
from hardmax.app.playground.sentences import STEPS as SENTENCE_STEPS
from hardmax.app.playground.sentences import sentences_of
from hardmax.app.playground.words import BATCH, SEED, D, frequent_of, texts_of

if TYPE_CHECKING:
    from hardmax.dynamics.optim import Optimizer


def spelled(step: Optimizer) -> str:
    """Return an optimizer as Python code, with the options that differ from its defaults."""
    values = [(f, getattr(step, f.name)) for f in fields(step) if f.name != "lr"]
    options = [f"{f.name}={value!r}" for f, value in values if value != f.default]
    return f"hm.optim.{type(step).__name__}({', '.join([repr(step.lr), *options])})"


def state_of(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the state of a message."""
    state = message.get("state")
    if not isinstance(state, dict):
        raise ValueError(f"state must be an object, got {state!r:.40}")
    return state


def python(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return lines of Python that compute and draw a state of the page."""
    state = state_of(message)
    scene = one_of(state, "scene", "plane", ("plane", "sentences", "words"))
    values = {"plane": _plane, "sentences": _sentences, "words": _words}[scene](state)
    return {"lines": ["import hardmax as hm", *_code(scene, **values).split("\n")]}


def _plane(state: Mapping[str, Any]) -> dict[str, str]:
    problem = problem_of(state)
    norm = one_of(state, "norm", "l2", NORMS)
    rate = number(state, "rate", 0.1, 1e-4, 100.0)
    span = number(state, "span", 4.0, 1e-6, 1e6)
    starts = [vector(start, "each start") for start in listed(state.get("starts"), "starts", STARTS)]
    runs = ""
    for entry in listed(state.get("rules"), "rules", len(RULES)):
        name = one_of({"rule": entry}, "rule", "", RULES)
        if name == "flow":
            call = f"hm.flow(problem, until_log_time={LOG_TIME:g}, start=start)"
        else:
            step = spelled(rule(name, rate, norm))
            call = f"hm.train(problem, {step}, steps={STEPS}, record=1, start=start)"
        runs += f"\nruns[{name!r}] = [{call} for start in starts]"
    basins = ""
    if state.get("field") is not None:
        field = {"rule": one_of(state, "field", "flow", FIELDS), "norm": norm, "loss": problem.loss.name}
        basins = _code("basins", **{name: repr(value) for name, value in field.items()}, level=str(FINEST))
    return {
        "keys": repr(state["problem"]["keys"]),
        "scores": repr(state["problem"]["scores"]),
        "loss": "" if problem.loss.name == "logistic" else f", loss={problem.loss.name!r}",
        "norm": "" if norm == "l2" else f", norm={norm!r}",
        "starts": repr(starts),
        "runs": runs,
        "span": repr(span),
        "basins": basins,
    }


def _sentences(state: Mapping[str, Any]) -> dict[str, str]:
    prompt, prediction = state.get("prompt"), ""
    if isinstance(prompt, str) and prompt.split():
        prediction = f"\n    print(hm.nexttoken.predict_next(run.predictor, {prompt!r}))"
    numbers = {"steps": str(SENTENCE_STEPS), "rate": str(SENTENCE_RATE)}
    return {"sentences": repr([*sentences_of(state)]), **numbers, "prediction": prediction}


def _words(state: Mapping[str, Any]) -> dict[str, str]:
    texts, labels = frequent_of(state)
    epochs = int(number(state, "epochs", 50, 1, 200))
    rate = number(state, "rate", 0.01, 1e-5, 1.0)
    settings = {"rate": rate, "epochs": epochs, "batch": BATCH, "seed": SEED, "dimension": D}
    return {name: repr(value) for name, value in {"texts": texts, "labels": labels, **settings}.items()}


def _code(name: str, **values: str) -> str:
    return Template(page.template(f"{name}.py.txt")).substitute(values).removesuffix("\n")


def file(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a file of the state's data: its name, its content, and the command that reads it."""
    state = state_of(message)
    scene = one_of(state, "scene", "plane", ("plane", "sentences", "words"))
    if scene == "sentences":
        name, lines, command = "sentences.txt", [*sentences_of(state)], "hardmax ntp check sentences.txt"
    elif scene == "words":
        texts, labels = texts_of(state)
        lines = ["text,label", *(f'"{" ".join(t)}",{y}' for t, y in zip(texts, labels, strict=True))]
        name, command = "texts.csv", 'hm.embeddings.text_corpus("texts.csv", min_count=2)'
    else:
        problem_of(state)
        name, lines = "playground.json", [json.dumps(state["problem"])]
        command = "hardmax solve playground.json --flow"
    return {"name": name, "content": "\n".join([*lines, ""]), "command": command}


QUESTIONS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
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
    >>> reply = answer({"ask": "solve", "problem": {"keys": [[[1, 0], [0, 0]]], "scores": [[1, 0]]}})
    >>> reply["selections"][0]["selection"], reply["selections"][0]["certified"]
    ((0,), True)
    """
    name = message.get("ask")
    if not isinstance(name, str) or name not in QUESTIONS:
        raise ValueError(f"ask must be one of {', '.join(QUESTIONS)}, got {name!r:.40}")
    return QUESTIONS[name](message)


def reply(raw: bytes) -> bytes:
    """Return the bytes that answer a message, or refuse it."""
    try:
        start = time.process_time()
        content = answer(protocol.read(raw))
        return protocol.pack_answer(content, 1e3 * (time.process_time() - start))
    except ValueError as error:
        return protocol.pack_refusal(str(error))
    except MemoryError:
        return protocol.pack_refusal("there is not enough memory for this question; ask for less")
