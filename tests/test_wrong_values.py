"""Wrong values: every public function returns, or refuses an argument by its name; it never trips over one.

Each function is called with every argument in turn replaced by each of the wrong values below. A refusal is
deliberate: hardmax itself raises it, at a `raise` statement, and its text has the name of the argument.
"""

import ast
import asyncio
import datetime
import decimal
import fractions
import functools
import importlib.util
import inspect
import itertools
import linecache
import math
import operator
import pathlib
import re
import signal
import traceback
import types
from collections.abc import Iterator

import numpy as np
import pytest

import hardmax as hm
from hardmax.margin import registry

SOURCE = pathlib.Path(hm.__file__).parent
SECONDS = 120  # a call that takes longer hangs; a busy machine needs this much for the slowest
TEXTS = ["S V O P", "V O P", "O P P", "P S V"]
PAIRS = [("a good film", "+"), ("a bad film", "-")] * 4
EXTRA = {"play": "anywidget", "playground.serve": "starlette", "probe": "transformers"}
SLOW = {
    "figure",
    "reproduce",
    "hunt",
    "playground.serve",
    "nexttoken.check",
    "sweep",
    "limits.basin_boundary",
    "trials.sweep_file",
}
# What is not at the top of its package, and is called by its users all the same.
INNER = (
    "embeddings.first_step.first_step_errors",
    "embeddings.first_step.initial_event",
    "embeddings.first_step.initial_event_from_gram",
    "embeddings.gram.conserved_spectrum",
    "embeddings.gram.descend_gram",
    "embeddings.gram.flow_gram",
    "embeddings.one_layer.key_query_gradients",
    "embeddings.minibatch.train_embeddings",
    "embeddings.first_step.draw_initial",
    "embeddings.one_layer.descend_embeddings",
    "embeddings.one_layer.evaluate",
    "embeddings.one_layer.gradients",
    "embeddings.one_layer.pairwise_pull",
    "embeddings.one_layer.token_mass",
    "embeddings.patterns.local_gap",
    "embeddings.patterns.realizable",
    "embeddings.patterns.realizable_patterns",
    "embeddings.patterns.score_selection",
    "embeddings.theorem5.run_theorem_5",
    "embeddings.theorem5.strong_conditions",
    "embeddings.theorem5.theorem_5_thresholds",
    "embeddings.two_layer.descend_two_layer",
    "nexttoken.Predictor.load",
    "nexttoken.Predictor.save",
    "nexttoken.training.train_by_flow",
    "nexttoken.generators.generate_by_rejection",
    "nexttoken.generators.structure",
    "nexttoken.star.late_of",
    "nexttoken.realizable.realizable_part",
    "nexttoken.relations.collocation",
    "nexttoken.relations.complete",
    "nexttoken.relations.orders",
    "nexttoken.stages.descend_stage_1",
    "nexttoken.stages.stage_1",
    "nexttoken.training.train",
    "nexttoken.unmerged.orthonormal_embedding",
    "nexttoken.unmerged.train_jointly",
    "nexttoken.unmerged.train_unmerged",
    "playground.answer",
    "playground.serve",
)
# Other words for an argument: what it becomes, or what it has to agree with.
ALSO = {
    "what": "problem",
    "E": "p|embeddings",
    "a": "p",
    "chosen": "selection",
    "data": "sentences|path|is about",
    "diagonal": "a",
    "first_rate": "until_norm",
    "id": "statement|figure",
    "ids": "check|figure|statement",
    "layers": "given",
    "limit": "more than",
    "message": "ask",
    "model": "path",
    "name": "norm|named|example",
    "on": "problem",
    "papers": "paper",
    "problems": "selections",
    "radii": "r|p",
    "rate": "a|A|margin|optimizer",
    "reach": "start",
    "rho": "r",
    "selections": "selection",
    "stage1": "stage 1",
    "start": "E|p",
    "state": "E",
    "step": "optimizer",
    "subject": "about",
    "text": "X",
    "workers": "n_jobs",
}


class Strange:
    """An object of another program, which refuses to be printed."""

    def __init__(self, *_, **__) -> None: ...

    def __repr__(self) -> str:
        raise RuntimeError("no text")


def one_trial(parameters, seed):
    """One trial of a sweep."""
    return {"half": 0.5}


WRONG = {
    "None": lambda: None,
    "True": lambda: True,
    "zero": lambda: 0,
    "minus one": lambda: -1,
    "a half": lambda: 1.5,
    "nan": lambda: math.nan,
    "inf": lambda: math.inf,
    "minus inf": lambda: -math.inf,
    "huge float": lambda: 1e308,
    "huge int": lambda: 10**5000,
    "complex": lambda: 1 + 2j,
    "fraction": lambda: fractions.Fraction(-1, 3),
    "decimal": lambda: decimal.Decimal("-0.1"),
    "numpy integer": lambda: np.int64(-3),
    "numpy nan": lambda: np.float32("nan"),
    "numpy date": lambda: np.datetime64("2020-01-01"),
    "date": lambda: datetime.datetime(2020, 1, 1),
    "empty text": lambda: "",
    "text": lambda: "x",
    "huge text": lambda: "x" * 100_000,
    "text with NUL": lambda: "a\0b",
    "bytes": lambda: b"x",
    "path": lambda: pathlib.Path("no", "such", "file"),
    "empty list": list,
    "nested empty list": lambda: [[]],
    "ragged list": lambda: [[1.0], [1.0, 2.0], 3.0],
    "list of texts": lambda: ["x", "y"],
    "list of None": lambda: [None, None],
    "deep list": lambda: functools.reduce(lambda inner, _: [inner], range(3000), 0),
    "dict": dict,
    "dict with None": lambda: {None: None},
    "set": lambda: {1, 2},
    "object": Strange,
    "function": lambda: lambda *_, **__: None,
    "class": lambda: Strange,
    "module": lambda: math,
    "generator": lambda: iter([object()]),
    "array of NaN": lambda: np.full((2, 2), np.nan),
    "array of objects": lambda: np.array([object(), None], dtype=object),
    "array of texts": lambda: np.array(["x", "y"]),
    "complex array": lambda: np.ones(2, dtype=complex),
    "empty array": lambda: np.zeros((0, 2)),
    "3-d array": lambda: np.zeros((2, 2, 2)),
    "booleans": lambda: np.array([True, False]),
    "huge integers": lambda: np.array([2**62, 2**62]),
    "huge floats": lambda: np.array([1e308, 1e308]),
    "tiny floats": lambda: np.array([5e-324, 5e-324]),
    "0-d array": lambda: np.array(1.0),
    "another object of hardmax": lambda: hm.optim.GD(0.1),
}


def public_functions() -> dict[str, types.FunctionType]:
    """Every public function by its shortest dotted name, in its package or in a module of one."""
    found: dict[int, tuple[str, types.FunctionType]] = {}

    def visit(prefix: str, module: types.ModuleType) -> None:
        listed = getattr(module, "__all__", None)
        for name in vars(module) if listed is None else listed:
            if prefix == "torch." and not importlib.util.find_spec("torch"):
                continue
            thing = getattr(module, name)
            if isinstance(thing, types.ModuleType) and listed is not None:
                visit(f"{prefix}{name}.", thing)
            # in a module without a list, what has an example
            own = listed is not None or (
                getattr(thing, "__module__", "") == module.__name__ and ">>>" in (thing.__doc__ or "")
            )
            if isinstance(thing, types.FunctionType) and own:
                known = found.get(id(thing), (prefix + name, thing))[0]
                found[id(thing)] = (min(known, prefix + name, key=len), thing)

    visit("", hm)
    return dict(sorted(found.values()))


FUNCTIONS = public_functions() | {name: operator.attrgetter(name)(hm) for name in INNER}
FUNCTIONS |= {"max_margin of a list": hm.max_margin, "train of a list": hm.train}


def valid(name: str, folder: pathlib.Path) -> dict:
    """One small valid call of a function: the shared arguments by their names, and its own."""
    plane, corpus = hm.data.example("B-FIG-8"), hm.Corpus.from_sequences([[0, 2], [1, 2]], [1, -1])
    labels = hm.data.example("B-FIG-3a")
    E, p, v = hm.embeddings.initial_vectors(3, 4, rng=0)
    shared = {"problem": plane, "corpus": corpus, "rng": 0, "p": [1.0, 0.5], "q": [1.0, 0.5]}
    shared |= {
        "selection": [0, 0],
        "chosen": [0, 0],
        "rate": 0.1,
        "steps": 3,
        "E": E,
        "v": v,
        "first_rate": 64.0,
    }
    text = folder / "mine.csv"
    text.write_text("label,text\n5,good film\n1,bad film\n")
    (folder / "IMDB Dataset.csv").write_text("review,sentiment\nGreat!,positive\nDull,negative\n")
    (folder / "yelp.csv").write_text("stars,text\n5,good\n1,bad\n")
    state = hm.embeddings.GramState.from_vectors(E, p, v)
    vectors = {"E": E, "p": p, "v": v}
    best = hm.max_margin(plane)
    samples = hm.nexttoken.Samples.from_sentences(TEXTS)
    analysis = hm.nexttoken.analyze(TEXTS)
    sentences = hm.nexttoken.named_sentences("C-EX-1")

    def predictor():
        return hm.nexttoken.training.train(samples, steps=1).predictor

    def classifier():
        return hm.text.train_classifier(PAIRS, held_out=0, epochs=1, workers=1).classifier

    def model_file():
        predictor().save(folder / "model.npz")
        return folder / "model.npz"

    def sweep_file():
        (folder / "own.py").write_text("def trial(parameters, seed):\n    return {'half': 0.5}\n")
        (folder / "mine.toml").write_text(
            'function = "own.py:trial"\ntrials = 1\nworkers = 1\n[grid]\nd = [2]'
        )
        return folder / "mine.toml"

    def layer():
        import torch

        torch.manual_seed(0)
        return torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def stop(serving):
        raise Stopped

    own = {
        "nexttoken.check": lambda: {"data": ["A B A", "B C", "C A"], "workers": 0},
        "nexttoken.generate_file": lambda: {"vocabulary": 5},
        "nexttoken.predict_next": lambda: {"model": predictor(), "sentence": "S V"},
        "nexttoken.train_file": lambda: {"data": TEXTS, "out": folder / "m.npz", "steps": 1, "stage1": 1},
        "probe": lambda: {"model": folder / "none"},
        "text.explain": lambda: {"model": classifier(), "text": "good"},
        "text.important": lambda: {"model": classifier()},
        "text.train_classifier": lambda: {"data": PAIRS, "held_out": 0, "epochs": 1, "workers": 1},
        "certify": lambda: {"certificate": best.to_dict()},
        "check_statement": lambda: {"id": "B-THM-2", "data": plane},
        "data.fig9_oracle": lambda: {"d": 2, "trials": 2},
        "data.find_reviews": lambda: {"folder": folder, "kind": "imdb"},
        "data.gaussian": lambda: {"n": 2, "T": 2, "d": 2},
        "data.sphere": lambda: {"n": 2, "T": 2, "d": 2},
        "data.example": lambda: {"name": "B-FIG-8"},
        "data.read_labelled": lambda: {"path": text},
        "data.read_reviews": lambda: {"path": text},
        "train": lambda: {"model": plane, "optimizer": hm.optim.Normalized(0.1), "steps": 3},
        "train of a list": lambda: {
            "model": [plane],
            "optimizer": hm.optim.Normalized(0.1),
            "steps": 3,
            "workers": 1,
        },
        "directions.assumptions.assumption_c": lambda: {
            "problem": labels,
            "selection": [1, 1, 1],
            "draws": 10,
        },
        "directions.direction.in_cone": lambda: {"mu": 0.1},
        "directions.interpolated_max_margin": lambda: {"problem": labels, "rho": 1.0, "selection": "best"},
        "directions.label_max_margin": lambda: {"problem": labels, "selection": [1, 1, 1]},
        "directions.relaxed_max_margin": lambda: {"problem": labels, "selection": [1, 1, 1]},
        "embeddings.assumption_4_corpus": lambda: {"n": 4, "T": 3},
        "embeddings.gram.conserved_spectrum": lambda: {"state": state},
        "embeddings.one_layer.descend_embeddings": lambda: vectors,
        "embeddings.gram.descend_gram": lambda: {"state": state},
        "embeddings.two_layer.descend_two_layer": lambda: {
            "state": hm.embeddings.TwoLayerGram.from_vectors(E, p, v)
        },
        "embeddings.first_step.draw_initial": lambda: {"S": 3, "d": 4},
        "embeddings.first_step.first_step_errors": lambda: {
            "K": np.eye(3),
            "a": np.zeros(3),
            "c": np.zeros(3),
            "pi": 1.0,
            "rho": 0.0,
            "nu": 1.0,
        },
        "embeddings.gram.flow_gram": lambda: {"state": state, "times": [0.0, 0.1]},
        "embeddings.imdb_corpus": lambda: {"folder": folder, "min_count": 1, "workers": 1},
        "embeddings.yelp_corpus": lambda: {"folder": folder, "min_count": 1, "workers": 1, "sample": None},
        "embeddings.first_step.initial_event": lambda: {**vectors, "delta": 0.1},
        "embeddings.first_step.initial_event_from_gram": lambda: {
            "diagonal": [1.0],
            "a": [1e-31],
            "c": [1e-30],
            "pi": 1.0,
            "rho": 0.0,
            "d": 10**60,
            "delta": 0.01,
        },
        "embeddings.initial_vectors": lambda: {"S": 3, "d": 4},
        "embeddings.one_layer.key_query_gradients": lambda: {**vectors, "W": np.eye(4)},
        "embeddings.patterns.local_gap": lambda: {
            "c": [1.0, -1.0, 0.0],
            "selection": hm.embeddings.patterns.score_selection(corpus, [1.0, 1.0, 0.0]),
        },
        "embeddings.one_layer.evaluate": lambda: {"a": [0, 0, 0], "c": [3, 0, -3]},
        "embeddings.one_layer.gradients": lambda: vectors,
        "embeddings.one_layer.pairwise_pull": lambda: {"a": [0, 0, 0], "c": [1, 0, -1], "a_hat": [1, 0, 1]},
        "embeddings.one_layer.token_mass": lambda: {"a": [0, 0, 0]},
        "embeddings.pattern_max_margin": lambda: {"selection": [[0], [1]], "E": np.eye(3)},
        "embeddings.patterns.realizable": lambda: {"selection": [[0], [1]], "E": np.eye(3)},
        "embeddings.patterns.realizable_patterns": lambda: {"E": np.eye(3)},
        "embeddings.theorem5.run_theorem_5": lambda: {
            "corpus": hm.embeddings.assumption_4_corpus(4, 3, rng=0),
            "rng": 1,
        },
        "embeddings.patterns.score_selection": lambda: {"scores": [1.0, 2.0, 1.0]},
        "embeddings.theorem5.strong_conditions": lambda: {"designated": [0, 0]},
        "embeddings.take_first_step": lambda: vectors,
        "embeddings.text_corpus": lambda: {"paths": text, "min_count": 1, "workers": 1},
        "embeddings.theorem5.theorem_5_thresholds": lambda: {
            "n": 4,
            "T": 3,
            "S": 5,
            "delta": 0.01,
            "first_rate": None,
        },
        "embeddings.token_selection": lambda: {"p": p},
        "embeddings.minibatch.train_embeddings": lambda: {
            "d": 2,
            "step": hm.optim.GD(0.1),
            "epochs": 1,
            "workers": 1,
        },
        "figure": lambda: {"id": "B-FIG-3a"},
        "plot_basins": lambda: {"problem": plane, "cells": 3},
        "flow": lambda: {"model": plane, "until_norm": 3.0},
        "hunt": lambda: {"claim": lambda problem: True, "tries": 1, "seconds": 1.0, "workers": 0},
        "limits.basin_boundary": lambda: {"start": [2.0, 0.0], "other": [0.0, 2.0], "tolerance": 0.1},
        "limits.joint_path": lambda: {"problem": labels, "radii": [1.0], "rho": 1.0, "starts": 1},
        "limits.late_residual": lambda: {"max_margin": best},
        "limits.path_offset": lambda: {"max_margin": best},
        "limits.local_path": lambda: {"mu": 0.1, "R0": 5.0, "radii": [10.0]},
        "limits.regularization_path": lambda: {"radii": [1.0], "starts": 1},
        "margin.factored_point": lambda: {
            "problem": hm.Problem.from_queries([[[1.0, 0.0], [0.0, 1.0]]], [[1.0, 1.0]], [[1.0, 0.0]]),
            "K": [[1.0], [-1.0]],
            "Q": [[1.0], [1.0]],
            "selection": None,
        },
        "margin.enclose_by": lambda: {"best": best},
        "margin.norm": lambda: {"name": "l2"},
        "margin.register": lambda: {"own": hm.margin.norm("l2")},
        "margin.solve_by": lambda: {
            "own": hm.margin.norm("l3"),
            "constraints": hm.Constraints.dense([[1.0, 0.0]]),
            "optimum": lambda problem, start: start,
        },
        "margin.set_max_margin": lambda: {"sets": [[0, 1], [0]]},
        "max_margin": lambda: {"selection": [0, 0]},
        "max_margin of a list": lambda: {"problem": [plane], "selection": [[0, 0]], "workers": 1},
        "cosine_distance": lambda: {"other": [1.0, 0.0]},
        "nexttoken.analyze": lambda: {"data": TEXTS},
        "nexttoken.relations.collocation": lambda: {"data": samples},
        "nexttoken.relations.complete": lambda: {"n": np.array([1, 2, -1])},
        "nexttoken.components": lambda: {"data": samples},
        "nexttoken.stages.descend_stage_1": lambda: {"collocation": [1, 2, 3, 0]},
        "nexttoken.generate": lambda: {"vocabulary": 4},
        "nexttoken.generators.generate_by_rejection": lambda: {"vocabulary": 4},
        "nexttoken.star.late_of": lambda: {
            "star": hm.nexttoken.star.KqStar.of(hm.nexttoken.stages.Pairs.of(samples))
        },
        "nexttoken.Predictor.load": lambda: {"path": model_file()},
        "nexttoken.Predictor.save": lambda: {"self": predictor(), "path": folder / "saved.npz"},
        "nexttoken.named_sentences": lambda: {"name": "C-EX-1"},
        "nexttoken.linear": lambda: {"contexts": ["x", "y"], "next_tokens": ["a", "b"]},
        "nexttoken.relations.orders": lambda: {"samples": samples},
        "nexttoken.unmerged.orthonormal_embedding": lambda: {"V": 2, "d": 3},
        "nexttoken.read_sentences": lambda: {"path": text},
        "nexttoken.realizable.realizable_part": lambda: {"data": TEXTS},
        "nexttoken.regenerate": lambda: {"n": analysis.n, "orders": analysis.orders, "sentence": [2, 0, 3]},
        "nexttoken.stages.stage_1": lambda: {"collocation": [1, 2, 3, 0]},
        "nexttoken.generators.structure": lambda: {"analysis": hm.nexttoken.analyze(["a b", "b a"])},
        "nexttoken.training.train": lambda: {"samples": samples, "stage1": 1},
        "nexttoken.training.train_by_flow": lambda: {"samples": samples, "until": 1.0, "stage1": 1},
        "nexttoken.unmerged.train_jointly": lambda: {"samples": samples, "E": None},
        "nexttoken.unmerged.train_unmerged": lambda: {
            "start": hm.nexttoken.unmerged.Unmerged.random(samples, np.eye(4), 2, 2, scale=0.1, rng=0)
        },
        "nexttoken.write_sentences": lambda: {"path": folder / "written.txt", "sentences": sentences},
        "playground.answer": lambda: {
            "message": {"ask": "solve", "problem": {"keys": [[[1, 0]]], "scores": [[1]]}}
        },
        "playground.serve": lambda: {"browser": False, "ready": stop},
        "reproduce": lambda: {"ids": ["B-FIG-3a"], "out": folder / "results"},
        "solve": lambda: {"flow": False, "start": None},
        "sweep": lambda: {"function": "operator:truediv", "grid": {"d": 2}, "trials": 1, "workers": 0},
        "papers.statement": lambda: {"id": "X-1", "title": "t", "claim": "c", "kind": "finite"},
        "limits.adam_growth": lambda: {"margin": 3.0},
        "limits.adam_limit": lambda: {"betas": (0.9, 0.999)},
        "limits.adam_waiting": lambda: {"margin": 3.0},
        "limits.critical_rate": lambda: {"best": best},
        "limits.forecast": lambda: {"optimizer": hm.optim.Momentum(1.0)},
        "limits.freezing_rate": lambda: {"best": best, "beta": 0.9},
        "limits.mirror_onset": lambda: {"best": hm.max_margin(plane, norm="l1.75")},
        "limits.runaway_rate": lambda: {"margin": 3.0},
        "dynamics.soft_sparsity": lambda: {"s": [0.5, 0.5]},
        "trials.sweep_file": lambda: {"file": sweep_file()},
        "trials.run_one": lambda: {
            "sweep": hm.sweep(one_trial, {"d": 2}, 1, workers=0),
            "cell": 0,
            "trial": 0,
        },
        "verify": lambda: {"ids": "B-THM-L9"},
    }
    if name.startswith("torch."):
        own |= torch_calls(corpus, layer)
    asked = inspect.signature(FUNCTIONS[name]).parameters
    needed = {
        each: shared[each] for each in asked if each in shared and asked[each].default is inspect._empty
    }
    return needed | (own[name]() if name in own else {})


def torch_calls(corpus, layer) -> dict:
    """The valid calls of hm.torch."""
    import torch

    q = torch.zeros(1, 2, 3)

    def query_model():
        return hm.torch.QueryAttention(v=[1.0, 0.0], W=[[1.0, 2.0], [3.0, 4.0]])

    batch = (torch.eye(2)[None], torch.ones(1, 2), torch.ones(1))
    return {
        "torch.scaled_dot_product_attention": lambda: {"query": q, "key": q, "value": q},
        "torch.assert_accurate": lambda: {"attention": hm.torch.scaled_dot_product_attention},
        "torch.audit": lambda: {
            "attention": hm.torch.scaled_dot_product_attention,
            "dtypes": ["float64"],
            "regimes": ["length 1"],
        },
        "torch.attention_layers": lambda: {"model": layer()},
        "torch.attention_weights": lambda: {"query": q, "key": q},
        "torch.padded": lambda: {"data": corpus},
        "torch.point_of": lambda: {
            "module": query_model(),
            "problem": hm.torch.problem_of(query_model(), batch),
        },
        "torch.problem_of": lambda: {"module": query_model(), "batch": batch},
        "torch.softmax": lambda: {"logits": torch.zeros(3)},
        "torch.watch": lambda: {"model": layer()},
    }


class Stopped(Exception):
    """The end of a server that has begun to listen."""


class Late(BaseException):
    """A call that hangs; no handler of hardmax may take it for something else."""


def alarm(*_):
    raise Late


@functools.cache
def raise_lines(file: str) -> frozenset[int]:
    """Lines of a file of hardmax that belong to a raise statement."""
    tree = ast.parse("".join(linecache.getlines(file)))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    return frozenset(line for node in found for line in range(node.lineno, node.end_lineno + 1))


def fault(error: BaseException, name: str, value: object) -> str | None:
    """Why an exception is not a deliberate refusal of the argument; None if it is one."""
    if isinstance(error, Late):
        return "hangs"
    if isinstance(error, AssertionError) and name == "attention":
        return None  # what hm.torch.assert_accurate is for
    frame = traceback.extract_tb(error.__traceback__)[-1]
    inside = pathlib.Path(frame.filename).is_relative_to(SOURCE)
    if isinstance(error, OSError) and any(
        pathlib.Path(each.filename).is_relative_to(SOURCE)
        for each in traceback.extract_tb(error.__traceback__)
    ):
        return None  # of a file, by its name
    if not isinstance(error, TypeError | ValueError | ImportError):
        return "wrong class"
    if not inside or frame.lineno not in raise_lines(frame.filename):
        return "raw error"
    names = rf"\b({name}|{ALSO.get(name, name)})\b"
    is_file = isinstance(value, str | pathlib.Path) and value and str(value)[:40] in str(error)
    is_named = re.search(names, str(error)) or is_file
    return None if is_named else "does not name the argument"


def drained(result):
    """A result, or the first few of a generator: what it does begins when it is asked."""
    return [*itertools.islice(result, 3)] if isinstance(result, Iterator) else result


def has_nan(result) -> bool:
    if isinstance(result, float | np.floating):
        return bool(np.isnan(result))
    if isinstance(result, np.ndarray):
        return result.dtype.kind == "f" and bool(np.isnan(result).any())
    return isinstance(result, list | tuple) and any(map(has_nan, result))


def calls(name: str, folder: pathlib.Path) -> Iterator[tuple[str, str, str | None, str]]:
    """Yield (argument, wrong value, the fault or None, what happened) for every call of a function."""
    function = FUNCTIONS[name]
    right = valid(name, folder)
    for argument, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD or argument == "self":
            continue
        is_spread = parameter.kind is parameter.VAR_POSITIONAL
        if is_spread and right:  # else it would take the place of an argument before it
            continue
        for kind, make in WRONG.items():
            value = make()
            if value is None and parameter.default is None:
                continue
            if argument == "ready" and callable(value):  # a right value: the server would go on listening
                continue
            signal.signal(signal.SIGALRM, alarm)
            signal.setitimer(signal.ITIMER_REAL, SECONDS)
            try:
                result = drained(function(value) if is_spread else function(**{**right, argument: value}))
            except (Stopped, KeyboardInterrupt):
                yield argument, kind, None, "stopped"
            except (Exception, Late) as error:
                signal.setitimer(signal.ITIMER_REAL, 0)
                happened = f"{type(error).__name__}: {error}"[:150]
                yield argument, kind, fault(error, argument, value), happened
            else:
                yield argument, kind, "nan" if has_nan(result) else None, type(result).__name__
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)


def marked(name: str):
    """A function as a parameter of a test, with the markers it needs."""
    marks = [pytest.mark.extra] if name in EXTRA or name.startswith("torch.") else []
    return pytest.param(name, marks=[*marks, pytest.mark.slow] if name in SLOW else marks)


@pytest.mark.parametrize(
    "name", [marked(name) for name in FUNCTIONS if inspect.signature(FUNCTIONS[name]).parameters]
)
@pytest.mark.compiled
@pytest.mark.filterwarnings("ignore")
def test_wrong_values_are_refused_by_name(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for table in ("NORMS", "BALLS"):  # what is registered leaves with the test
        monkeypatch.setattr(registry, table, {**getattr(registry, table)})
    if name in EXTRA or name.startswith("torch."):
        pytest.importorskip(EXTRA.get(name, "torch"))
    loop = asyncio._get_running_loop()  # a browser of another test keeps one in this thread
    asyncio._set_running_loop(None)
    try:
        every = list(calls(name, tmp_path))
    finally:
        asyncio._set_running_loop(loop)
    assert len(every) >= len(WRONG) - 1
    assert [each for each in every if each[2] is not None] == []
