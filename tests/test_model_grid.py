"""Every model of papers A and C with every optimizer and option, against a loop of ten lines or a refusal.

The loop calls the gradient functions of the models, which finite differences check below, and the public
update of the optimizers.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import hardmax as hm
from hardmax.embeddings import one_layer
from hardmax.embeddings.gram import GramState
from hardmax.embeddings.minibatch import epoch_order
from hardmax.embeddings.two_layer import TwoLayerGram, TwoLayerNetwork
from hardmax.nexttoken.stages import Pairs, gradient_ov, stage_1
from hardmax.nexttoken.unmerged import Embedded, Unmerged
from hardmax.problem.readouts import OutputValue

CORPUS = hm.Corpus.from_sequences([[0, 2], [1, 2], [0, 1, 2], [1, 1, 0], [2, 0, 0]], [1, -1, 1, -1, 1])
VECTORS = dict(zip("Epv", hm.embeddings.initial_vectors(CORPUS.S, 4, rng=0), strict=True))
SAMPLES = hm.nexttoken.Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"])
MERGED = SAMPLES.merged()
FACTORS = Unmerged.random(SAMPLES, np.eye(4), 3, 3, scale=0.4, rng=0)
PAIRS = Pairs.of(SAMPLES)
OUTPUT = stage_1(PAIRS.collocation, 900, 0.1)
OPTIMIZERS = {
    "GD": hm.optim.GD(0.1),
    "GD in l3": hm.optim.GD(0.1, norm="l3"),
    "Normalized": hm.optim.Normalized(0.1),
    "damped": hm.optim.Normalized(0.1, eps=0.01, decay=0.5),
    "Sign": hm.optim.Sign(0.05),
    "Coordinate": hm.optim.Coordinate(0.05),
    "Mirror": hm.optim.Mirror(0.05, power=3.0),
    "Momentum": hm.optim.Momentum(0.05),
    "Signum": hm.optim.Signum(0.05),
    "SGD": hm.optim.SGD(0.1, momentum=0.9, weight_decay=0.01),
    "Adam": hm.optim.Adam(0.05, eps=1e-3),
    "AdamW": hm.optim.AdamW(0.05, eps=1e-3, weight_decay=0.1),
    "RMSprop": hm.optim.RMSprop(0.05, eps=1e-3),
    "Spectral": hm.optim.Spectral(0.05),
    "Muon": hm.optim.Muon(0.05),
}


class Case:
    """A model, its blocks and gradients as the reference sees them, and what its run calls the blocks."""

    def __init__(self, model, start, gradients, end, n, *, together=False, loss=None):
        self.model, self.start, self.gradients, self.end = model, start, gradients, end
        self.n, self.together, self.loss = n, together, loss


def part(inputs):
    return CORPUS if inputs is None else one_layer.take(CORPUS, np.asarray(inputs))


def of_embeddings(layers, blocks):
    def gradients(at, inputs):
        vectors = (VECTORS | at).values()
        found = one_layer.gradients(part(inputs), *vectors) if layers == 1 else two(part(inputs), *vectors)
        return {name: getattr(found, name) for name in blocks}

    def loss(at):
        E, p, v = (VECTORS | at).values()
        return one_layer.evaluate(CORPUS, E @ p, E @ v).loss if layers == 1 else two(CORPUS, E, p, v).loss

    model = CORPUS.model(start=tuple(VECTORS.values()), layers=layers, blocks=blocks)
    start = {name: VECTORS[name] for name in blocks}
    return Case(model, start, gradients, lambda run, name: getattr(run, name), CORPUS.n, loss=loss)


def two(corpus, E, p, v):
    return TwoLayerNetwork().gradients(corpus, E, p, v)


def of_inner_products(layers):
    case = of_embeddings(layers, ("E", "p", "v"))
    kind = GramState if layers == 1 else TwoLayerGram
    case.model = CORPUS.model(start=kind.from_vectors(*VECTORS.values()), layers=layers)

    def end(run, name):
        state = run.state if layers == 1 else run.state.one_layer
        return {"E": state.K, "p": state.a, "v": state.c}[name]

    case.end = end
    return case


def of_output():
    def gradients(at, inputs):
        n = PAIRS.collocation if inputs is None else np.full(4, -1)
        n[[] if inputs is None else inputs] = PAIRS.collocation[[] if inputs is None else inputs]
        unit, log_norm = gradient_ov(n, at["W_ov"])
        return {"W_ov": unit * math.exp(log_norm)}

    def loss(at):
        return OutputValue.of_table(PAIRS.collocation, at["W_ov"]).stage_1_loss

    model, start = SAMPLES.model(blocks=("W_ov",)), {"W_ov": np.zeros((4, 4))}
    return Case(model, start, gradients, lambda run, name: run.table, 4, loss=loss)


def of_tables(start, names, together):
    def gradients(at, inputs):
        samples = MERGED if inputs is None else MERGED.part(np.asarray(inputs))
        return dict(zip(names, made(samples, at).gradients, strict=True))

    def made(samples, at):
        fixed = {"E": start.E}
        return type(start)(samples=samples, **fixed, **at)

    def loss(at):
        found = made(MERGED, at)
        return (found.merged if isinstance(found, Unmerged) else found).model.loss

    blocks = {name: getattr(start, name) for name in names}
    model = SAMPLES.model(joint=True) if isinstance(start, Embedded) else SAMPLES.model(weights=start)
    end = lambda run, name: getattr(run.weights, name)  # noqa: E731
    return Case(model, blocks, gradients, end, MERGED.n, together=together, loss=loss)


JOINT = Embedded(MERGED, np.eye(4), np.zeros((4, 4)), np.zeros((4, 4)))
CASES = {
    "one layer": of_embeddings(1, ("E", "p", "v")),
    "p of one layer": of_embeddings(1, ("p",)),
    "E and p": of_embeddings(1, ("E", "p")),
    "inner products": of_inner_products(1),
    "two layers": of_embeddings(2, ("E", "p", "v")),
    "p of two layers": of_embeddings(2, ("p",)),
    "two layers, inner products": of_inner_products(2),
    "W_ov": of_output(),
    "joint": of_tables(JOINT, ("W_kq", "W_ov"), True),
    "factors": of_tables(FACTORS, ("W_k", "W_q", "W_v", "W_o"), True),
}


def walk(case, optimizer, steps, inputs=lambda k: None, milestones=()):
    """Take the steps one by one."""
    at = {name: np.array(x, float) for name, x in case.start.items()}
    groups = [tuple(at)] if case.together and not optimizer.of_matrix else [(name,) for name in at]
    states = [optimizer.begin(flat(at, group, optimizer)) for group in groups]
    for k in range(steps):
        found = case.gradients(at, inputs(k))
        rate = optimizer.constant_rate if not optimizer.decay else optimizer.lr / (k + 1) ** optimizer.decay
        rate *= 0.1 ** sum(k >= each for each in milestones)
        moves = {}
        for group, state in zip(groups, states, strict=True):
            x = -flat(found, group, optimizer)
            if not x.any():
                continue
            move = optimizer.update(x, np.zeros_like(x), state, rate, k).ravel()
            for name in group:
                moves[name], move = np.split(move, [at[name].size])
        for name, move in moves.items():
            at[name] += move.reshape(at[name].shape)
    return at


def flat(arrays, group, optimizer):
    return (
        arrays[group[0]] if optimizer.of_matrix else np.concatenate([arrays[name].ravel() for name in group])
    )


def refused(name, optimizer):
    """Why a combination makes no sense, or None."""
    if name == "inner products" and not (
        isinstance(optimizer, hm.optim.GD | hm.optim.Normalized) and optimizer.norm == "l2"
    ):
        return "must be GD or Normalized in l2 for inner products"
    if name == "two layers, inner products" and not optimizer.in_span:
        return "must move by combinations of gradients for inner products"
    if optimizer.of_matrix and "p" in CASES[name].start:
        return "optimizer of p must have a norm of vectors"
    return None


def marked(name, title):
    """Return a model and an optimizer as a parameter; batches of two layers by AdamW need PyTorch."""
    needs_torch = name == "two layers" and title in ("Adam", "AdamW")
    return pytest.param(name, title, marks=[pytest.mark.extra] if needs_torch else [])


@pytest.mark.parametrize(("name", "title"), [marked(name, title) for title in OPTIMIZERS for name in CASES])
def test_every_optimizer_and_way(name, title):
    case, optimizer = CASES[name], OPTIMIZERS[title]
    if reason := refused(name, optimizer):
        for how in ({"steps": 1}, {"epochs": 1, "batch": 2, "rng": 0}):
            with pytest.raises((TypeError, ValueError), match=reason):
                hm.train(case.model, optimizer, **how)
        return
    turns = lambda k: (2 * k + np.arange(2)) % case.n  # noqa: E731
    ways = [
        ({"steps": 5}, 5, {}),
        ({"steps": 5, "batch": 2}, 5, {"inputs": turns}),
        ({"steps": 5, "milestones": (2, 4)}, 5, {"milestones": (2, 4)}),
        shuffled(case),
    ]
    for options, steps, how in ways:
        run = hm.train(case.model, optimizer, **options)
        for block, want in seen(name, walk(case, optimizer, steps, **how)).items():
            np.testing.assert_allclose(
                case.end(run, block), want, rtol=0, atol=tolerance(run), err_msg=str(options)
            )


def shuffled(case):
    """Two epochs of batches of two, the rate a tenth in the second."""
    per, rng = -(-case.n // 2), np.random.default_rng(3)
    seed = int(rng.integers(2**63))
    order = [epoch_order(case.n, seed, epoch) for epoch in range(2)]
    inputs = lambda k: order[k // per][2 * (k % per) : 2 * (k % per) + 2]  # noqa: E731
    options = {"epochs": 2, "batch": 2, "rng": 3, "milestones": (1,)}
    return options, 2 * per, {"inputs": inputs, "milestones": (per,)}


def tolerance(run):
    """Compiled mini-batches have single precision."""
    return 1e-6 if getattr(run, "E", np.empty(0)).dtype == np.float32 else 1e-11


def seen(name, at):
    """What can be compared: inner products where there is nothing else."""
    if "inner products" not in name:
        return at
    E, p, v = at["E"], at["p"], at["v"]
    return {"E": E @ E.T, "p": E @ p, "v": E @ v}


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_the_loss(name):
    """By central differences, at the start and on a batch."""
    case, rng = CASES[name], np.random.default_rng(1)
    at = {block: x + 0.1 * rng.normal(size=x.shape) for block, x in case.start.items()}
    found = case.gradients(at, None)
    for block, x in at.items():
        way = rng.normal(size=x.shape)
        ends = [case.loss(at | {block: x + sign * 1e-6 * way}) for sign in (1, -1)]
        assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(float((found[block] * way).sum()), abs=2e-9)


@pytest.mark.parametrize("name", [*CASES, "two stages"])
def test_options_of_every_model(name, tmp_path):
    """Record, progress, an early end, and a checkpoint that is continued to the same bits."""
    model = SAMPLES.model() if name == "two stages" else CASES[name].model
    by = OPTIMIZERS["Normalized"] if "inner products" in name else OPTIMIZERS["Adam"]
    told = []
    whole = hm.train(model, by, steps=12, record=4, progress=lambda *each: told.append(each))
    assert whole.times.tolist() == [0, 4, 8, 12]
    assert told == [(0, 12), (4, 12), (8, 12), (12, 12)]
    assert len(whole.losses) == 4
    until = float(whole.losses[1])
    early = hm.train(model, by, steps=12, record=4, until_loss=until)
    assert early.event == "loss reached"
    assert early.times.tolist() == ([0, 4] if until < whole.losses[0] else [0])
    for how in ({"steps": 12}, {"steps": 12, "batch": 2, "milestones": (5,)}):
        file = tmp_path / f"{len(how)}.npz"
        once = hm.train(model, by, record=4, **how)
        cut = hm.train(model, by, record=4, **how | {"steps": 8}, checkpoint=file, checkpoint_every=3)
        assert cut.times.tolist() == [0, 4, 8]
        resumed = hm.train(model, by, record=4, **how, checkpoint=file, checkpoint_every=3)
        np.testing.assert_array_equal(resumed.losses, once.losses)
        np.testing.assert_array_equal(resumed.final, once.final)
        again = hm.train(model, by, record=4, **how, checkpoint=file, checkpoint_every=3)
        np.testing.assert_array_equal(again.losses, once.losses)
        with pytest.raises(ValueError, match="checkpoint must come from the same training"):
            hm.train(model, hm.optim.GD(0.3), record=4, **how, checkpoint=file)


@pytest.mark.parametrize("title", OPTIMIZERS)
def test_two_stages(title):
    """W_kq is that of `hm.train` on the problem that W_ov makes."""
    optimizer, model = OPTIMIZERS[title], SAMPLES.model()
    by = {"W_ov": hm.optim.Normalized(0.1), "W_kq": optimizer}
    if optimizer.of_matrix:
        with pytest.raises(ValueError, match=r"W_kq has one number per pair.*joint=True"):
            hm.train(model, by, steps=1)
        return
    problem = SAMPLES.merged().problem(OUTPUT)
    for options in ({"steps": 7}, {"steps": 7, "batch": 2}):
        run = hm.train(model, by, **options)
        want = hm.train(problem, optimizer, **options)
        np.testing.assert_allclose(run.a, want.p[: PAIRS.P], rtol=0, atol=1e-12, err_msg=str(options))
    lowered = hm.train(model, by, steps=7, milestones=(3,)).a
    rates = optimizer.lr / np.arange(1, 8) ** optimizer.decay * np.repeat([1.0, 0.1], [3, 4])
    want = hm.train(problem, type(optimizer)(**vars(optimizer) | {"lr": rates, "decay": 0.0}), steps=7)
    np.testing.assert_allclose(lowered, want.p[: PAIRS.P], rtol=0, atol=1e-12)


def test_any_optimizer_of_the_first_stage():
    """W_ov by steps where it is not known in closed form."""
    by = {"W_ov": hm.optim.Adam(0.05), "W_kq": hm.optim.Normalized(0.1)}
    run = hm.train(SAMPLES.model(), by, steps=20, output_steps=30)
    W_ov = hm.train(SAMPLES.model(blocks=("W_ov",)), hm.optim.Adam(0.05), steps=30).W_ov
    np.testing.assert_array_equal(run.W_ov.table, W_ov.table)
    want = hm.train(SAMPLES.merged().problem(W_ov), hm.optim.Normalized(0.1), steps=20)
    np.testing.assert_allclose(run.a, want.p[: PAIRS.P], rtol=0, atol=1e-12)


def test_each_block_with_its_own_optimizer():
    """Matrices by Muon, vectors by another; all four factors by four."""
    by = {"E": hm.optim.Muon(0.1), "p": hm.optim.GD(0.1), "v": hm.optim.Adam(0.1)}
    for layers in (1, 2):
        model = CORPUS.model(start=tuple(VECTORS.values()), layers=layers)
        for how in ({"steps": 4}, {"epochs": 2, "batch": 2, "rng": 0}):
            run = hm.train(model, by, **how)
            assert run.losses[-1] < run.losses[0]
    names = ("W_k", "W_q", "W_v", "W_o")
    by = dict(zip(names, (OPTIMIZERS[each] for each in ("Muon", "GD", "Adam", "Sign")), strict=True))
    run = hm.train(SAMPLES.model(weights=FACTORS), by, steps=4)
    assert run.losses[-1] < run.losses[0]
    with pytest.raises(ValueError, match="optimizer must have the blocks"):
        hm.train(SAMPLES.model(weights=FACTORS), {"W_k": hm.optim.GD(0.1)}, steps=1)


def test_options_that_a_model_does_not_have_are_named():
    for model, how in ((CORPUS.model(d=3), {"rng": 0}), (SAMPLES.model(), {})):
        with pytest.raises(TypeError, match=r"wrong is not an option for .*; the options are .*checkpoint"):
            hm.train(model, hm.optim.GD(0.1), steps=1, wrong=1, **how)
