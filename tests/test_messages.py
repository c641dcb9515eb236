"""Messages that a review of 0.2 read, by its numbers: class, argument or file, and a word of the remedy.

Numbers 20 and 40 are gone: pools close without a message, and batches train every model.
"""

import gzip
import importlib
import os
import re
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import hardmax as hm
from hardmax.app.cli import run

KEYS = [[[1.0, 0.0], [0.0, 0.0]], [[-1.0, 1.0], [1.0, 0.0]]]
SCORES = [[1.0, 0.0], [1.0, 0.0]]
PROBLEM = hm.Problem(KEYS, SCORES)
ALONE = hm.Problem([[[1.0, 0.0]]], [[1.0]])
SVOP = ["S V O P", "V O P", "O P P", "P S V"]
MESSAGES = {}


def message(number, kind, pattern, extra=False):
    """Enter a function that raises into the table."""

    def enter(function):
        marks = [pytest.mark.extra] if extra else []
        MESSAGES[number] = pytest.param(function, kind, pattern, id=f"{number}", marks=marks)

    return enter


def inside(place):
    """Return what is not public, by module and name."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(f"hardmax.{module}"), name)


def written(name, content):
    with open(name, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    return name


@message(1, ValueError, "^weights must be positive, got 0 at index 1; drop")
def _():
    PROBLEM.weighted(weights=[1, 0])


@message(2, ValueError, "^no writable folder for compiled kernels; set NUMBA_CACHE_DIR")
def _(monkeypatch):
    caching = importlib.import_module("hardmax._lib.caching")
    monkeypatch.setattr(caching.tempfile, "mkdtemp", lambda **_: os.stat("no such folder"))
    caching.lend("a reason")


@message(3, ValueError, "^long.json exceeds the limit of .*; split")
def _():
    inside("_lib.reading:read_bytes")(written("long.json", "12"), 1)


@message(4, ImportError, "^probe needs torch: pip install")
def _():
    os.mkdir("model")
    code = "import sys; sys.modules['torch'] = None; import hardmax as hm; hm.probe('model')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    raise ImportError(done.stderr.splitlines()[-1].removeprefix("ImportError: "))


@message(5, ValueError, "^`start` requires `flow=True`$")
def _():
    hm.solve(PROBLEM, start=[1, 0])


@message(6, ValueError, "^`critical=True` supports only norm l2, got")
def _():
    hm.solve(PROBLEM, critical=True, norm="l1")


@message(7, ValueError, "^`reading` requires `on`$")
def _():
    hm.verify("B-THM-2", reading="paper")


@message(8, ValueError, "^ids must name at least one statement .*such as B-THM-2")
def _():
    hm.verify(on=PROBLEM)


@message(9, ValueError, "missing argument CLAIM, or --catalogue")
def _(capsys):
    assert run(["hunt"]) == 2
    raise ValueError(capsys.readouterr().err)


@message(10, ValueError, "^hardmax: interrupted\n$")
def _(capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.__import__", interrupted)
    try:
        code = run(["solve", "problem.json"])
    finally:
        monkeypatch.undo()
    assert code == 130
    raise ValueError(capsys.readouterr().err)


@message(11, ValueError, "^`resume`: .*model.npz was trained with different values of: .*; pass the same")
def _():
    hm.nexttoken.train_file(SVOP, "model.npz", steps=5)
    hm.nexttoken.train_file(SVOP, "model.npz", steps=9, rate=0.5, resume=True)


@message(12, ValueError, "^sentences: .* gradients cancel exactly")
def _(monkeypatch):
    training = importlib.import_module("hardmax.nexttoken.training")
    trained = training.train(hm.nexttoken.Samples.from_sentences(SVOP), steps=1)
    object.__setattr__(trained, "event", "stationary point")
    monkeypatch.setattr(training, "train", lambda *_, **__: trained)
    hm.nexttoken.train_file(SVOP, "model.npz", steps=5)


@message(13, FileNotFoundError, "No such directory; pass the folder of CIFAR-10: 'missing'")
def _():
    inside("data.images:cifar10")("missing")


@message(14, ValueError, "^data_batch_1 is not a batch of CIFAR-10: .*; fetch it again")
def _():
    for name in (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"):
        written(name, "nothing")
    inside("data.images:cifar10")(".")


@message(15, ValueError, "label '5' makes the column 'label' ambiguous: the meaning of 1 changes; ")
def _():
    rows = ["text,label", *1500 * ["a,1"], "b,5"]
    list(hm.data.read_reviews(written("long.csv", "\n".join(rows))))


@message(16, ValueError, "^the sentences must have at most .* distinct tokens, got more; use less text")
def _():
    raise ValueError(inside("data.sentences.distinct:MANY_WORDS"))


@message(17, ValueError, "packed.txt.gz: cannot decompress the file: .*; copy it again")
def _():
    hm.nexttoken.check(written("packed.txt.gz", gzip.compress(b"a b\n")[:-3]))


@message(18, ValueError, "words.json: not valid JSON: .*; write a list of lists")
def _():
    hm.nexttoken.check(written("words.json", "[["))


@message(19, OSError, "^a worker died .*, possibly out of memory; .* with fewer workers")
def _():
    future = Future()
    future.set_exception(inside("_lib.pool:WorkerDied")("exit code 9"))
    workers = object.__new__(inside("data.text.gathering:TextWorkers"))
    workers.count, workers._pool = 2, SimpleNamespace(submit=lambda job: future)
    list(workers.run("tokens", [["a"], ["b"]]))


@message(21, ValueError, "vacuous because sets holds every token; leave out")
def _():
    inside("directions.assumptions:assumption_d")(ALONE)


@message(22, ValueError, "max_margin has no competing token; choose another")
def _():
    inside("directions.direction:local_constants")(ALONE, [0])


@message(23, ValueError, "^too many sets .*; pass rng to sample")
def _():
    inside("directions.position:general_position")(hm.data.sphere(n=6, T=8, d=6, rng=0))


@message(24, ValueError, "^eps must be at least .*; smaller values underflow")
def _():
    corpus = hm.Corpus.from_sequences([[0, 1], [1, 2]], [1, -1])
    hm.train(corpus.model(d=4), hm.optim.AdamW(0.1, eps=1e-30), epochs=1, batch=1, rng=0)


@message(25, ValueError, "^a two-layer model cannot be converted to a Problem, .*; use TwoLayer")
def _():
    inside("embeddings.two_layer:two_layers")()


@message(26, ValueError, "B-FIG-90.json is not a valid record of a figure .*; delete it")
def _():
    written("B-FIG-90.json", "{")
    inside("papers.figures.reproduce:read_records")(Path())


@message(27, ValueError, "^missing argument '.*'; pass it in `given`")
def _():
    PROBLEM.save("problem.json")
    hm.hunt("B-THM-L8", on="problem.json")


@message(28, ValueError, "^pass exactly one of rho .* and r .*, got neither")
def _():
    problem = hm.Problem.from_tokens(KEYS, labels=[1, 1], readout=[1.0, 0.0])
    inside("limits.paths:joint_path")(problem, [9.0])


@message(29, ValueError, "program of goal is unbounded")
def _():
    inside("margin.norms.polyhedral:Polyhedron")([[1, 0], [0, 1]], [1, 1], [False] * 2).climb([-1, 0], [0, 0])


@message(30, ValueError, r"^unknown statement 'B-THM-99'. Did you mean B-THM-.*\?")
def _():
    hm.check_statement("B-THM-99", PROBLEM)


@message(31, ValueError, "^cannot listen on host 192.0.2.1, .*; choose others", extra=True)
def _():
    hm.playground.serve(host="192.0.2.1", browser=False)


@message(32, ValueError, "^lr is too large .* would overflow float64 .*; rescale the keys")
def _():
    hm.train(hm.Problem((1e150 * np.array(KEYS)).tolist(), SCORES), hm.optim.GD(1e250), steps=3)


@message(33, ValueError, "^loss 'rises' must decrease .*; give .* or negate the scores")
def _():
    rises = hm.LossFunction("rises", value=np.exp, log_slope=lambda u: u)
    hm.flow(hm.Problem(KEYS, SCORES, loss=rises))


@message(34, ValueError, r"^input 0 has tied tokens \[0, 1\]; pass a selection that picks one")
def _():
    hm.max_margin(PROBLEM, hm.selected_tokens(PROBLEM, [0, 0]))


@message(35, ValueError, r"^X\[1\] must be a string, got None; use '' for missing")
def _():
    hm.text.AttentionClassifier().fit(["a", None], [0, 1])


@message(36, ValueError, "^checksum mismatch: model.npz is corrupted; copy or train")
def _():
    hm.text.AttentionClassifier().fit(["good film", "bad film"] * 4, [1, 0] * 4).save("model.npz")
    with np.load("model.npz") as file:
        arrays = dict(file)
    largest = max(arrays, key=lambda name: arrays[name].size * (arrays[name].dtype.kind == "f"))
    arrays[largest] = arrays[largest] + 1
    np.savez("model.npz", **arrays)
    hm.text.AttentionClassifier.load("model.npz")


@message(37, ValueError, "^heads=3 does not divide the 8 rows", extra=True)
def _():
    import torch

    hm.torch.Projection(torch.nn.Linear(6, 8), heads=3).weights()


@message(38, ValueError, "^nothing is recorded yet; call step", extra=True)
def _():
    import torch

    hm.torch.watch(torch.nn.MultiheadAttention(4, 2)).plot()


@message(39, ValueError, "^start must be 'normal' or 'xavier', got 'he'", extra=True)
def _():
    inside("torch.vision:VisionTransformer")(start="he")


@message(41, TypeError, "^mirror must be True or False, got 'l3'")
def _():
    hm.flow(PROBLEM, mirror="l3")


@message(42, ValueError, "exactly one of experiment .* and function")
def _():
    hm.trials.sweep_file(written("plan.toml", "trials = 1"))


@message(43, ValueError, "store.sqlite was made by other code: .* pass allow_changes=True")
def _():
    call = {"grid": {"a": [1]}, "trials": 1, "workers": 0, "store": "store.sqlite"}
    hm.sweep(one_row, **call)
    hm.sweep(one_row, **call, data_files=[__file__])


def one_row(parameters, seed):
    return {"a": 1}


@message(44, ValueError, "^samples give attention no gradient: no sentence .*; pass longer sentences")
def _():
    hm.nexttoken.training.train(hm.nexttoken.Samples.from_sentences(["a b", "b a"]), steps=5)


@message(45, ValueError, "^`limit=True` is undefined here: tokens tie .*; predict without it")
def _():
    predictor = hm.nexttoken.training.train(hm.nexttoken.Samples.from_sentences(SVOP)).predictor
    object.__setattr__(predictor, "star", np.ones_like(predictor.star))
    object.__setattr__(predictor, "residual", None)
    predictor.predict("S V O", limit=True)


@message(46, FileNotFoundError, "No such file or directory: 'missing.csv'")
def _():
    hm.text.train_classifier("missing.csv")


@pytest.mark.parametrize("call, kind, pattern", MESSAGES.values())
def test_problem_first_then_the_remedy(call, kind, pattern, request, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    wanted = call.__code__.co_varnames[: call.__code__.co_argcount]
    with pytest.raises(kind, match=pattern) as caught:
        call(**{name: request.getfixturevalue(name) for name in wanted})
    text = str(caught.value)
    assert "--" not in text.replace("--catalogue", ""), "no option of another surface"
    assert not re.search(r"\b(is no|are no|so many|of one's own|for lack of|next to|fix)\b", text)


def test_all_messages_are_here():
    assert {*range(1, 47)} - {*MESSAGES} == {20, 40}
