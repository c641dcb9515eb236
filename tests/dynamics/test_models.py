"""Every model with every optimizer that makes sense: compiled and plain, in batches, and by differences."""

from dataclasses import replace

import numpy as np
import pytest

import hardmax as hm
from hardmax.dynamics.driver import Rule, Trainer
from hardmax.dynamics.edges import edge_loop
from hardmax.dynamics.forces import by_coordinate, dense, factors, layout_of, pair, workspace
from hardmax.dynamics.gradient import settle_at, with_readout
from hardmax.dynamics.loop import CompiledLoop, compiled, plain_steps
from hardmax.dynamics.stepping import pull_by_coordinate
from hardmax.problem.coordinates import scaled
from hardmax.problem.keys import Dense
from hardmax.problem.problem import slots_of

OPTIMIZERS = (
    hm.optim.GD(0.5),
    hm.optim.Normalized(0.1, eps=0.01),
    hm.optim.Normalized(0.02, norm="l3"),
    hm.optim.Sign(0.02),
    hm.optim.Momentum(0.05),
    hm.optim.Adam(0.05, eps=1e-3),
    hm.optim.SGD(0.1, momentum=0.9),
    hm.optim.Mirror(0.05, power=3.0),
)


def tokens_problem(rng):
    return hm.Problem.from_tokens(rng.normal(size=(3, 4, 5)), [1, -1, 1], rng.normal(size=5))


def plain(problem):
    """The same problem with its loss as a function of Python."""
    loss = problem.loss
    mine = hm.LossFunction("mine", loss.value, lambda u: float(loss.log_slopes(np.array([u]))[0]))
    return problem._with(readout=replace(problem.readout, loss=mine))


def queries_problem(rng):
    keys, queries, scores = rng.normal(size=(3, 4, 4)), rng.normal(size=(3, 3)), rng.normal(size=(3, 4))
    return hm.Problem.from_queries(keys, queries, scores)


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
@pytest.mark.parametrize("batch", [None, 2])
def test_compiled_and_plain_text_of_the_loop_agree(optimizer, batch):
    rng = np.random.default_rng(1)
    problem = hm.Problem(rng.normal(size=(3, 4, 5)), rng.normal(size=(3, 4)))
    scale, slots = scaled(problem), slots_of(problem)
    ends = []
    for loop in (compiled, plain_steps):
        rule = Rule.of(optimizer, 60, scale, by_update=batch is not None)
        force = by_coordinate if rule.step.by_coordinate and rule.kind == 2 else dense
        layout = layout_of(problem, slots, batch=batch or 0)
        record, x = np.array([0, 7, 60]), 0.1 * np.ones(5)
        options = {"slots": len(slots.tokens), "n": 3, "batch": batch or 0, "log_total": np.log(batch or 3)}
        trainer = Trainer(force, layout, x, [rule], record, loop=loop, **options)
        ends.append(trainer.advance().points)
        assert trainer.event is None
        assert (trainer.points[-1] == x).all()
    assert (ends[0] == ends[1]).all()
    run = hm.train(problem, optimizer, steps=60, start=0.1 * np.ones(5), record=[7], batch=batch)
    np.testing.assert_allclose(run.points, ends[0], rtol=0, atol=1e-12 * np.abs(ends[0]).max())


def test_a_run_in_pieces_has_the_same_bits():
    rng = np.random.default_rng(2)
    problem = hm.Problem(rng.normal(size=(3, 4, 5)), rng.normal(size=(3, 4)))
    slots, rule = slots_of(problem), Rule.of(hm.optim.Adam(0.05), 100, scaled(problem))

    def trainer(x):
        record = np.array([0, 33, 100])
        return Trainer(by_coordinate, layout_of(problem, slots), x, [rule], record, slots=12, n=3)

    whole, parts = trainer(np.zeros(5)).advance(), trainer(np.zeros(5))
    for until in (1, 2, 50, 99, 100):
        parts.advance(until)
        assert parts.taken == until
    assert (whole.points == parts.points).all()
    assert whole.event is parts.event is None


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
@pytest.mark.parametrize("batch", [None, 2])
def test_joint(optimizer, batch):
    """p and v by every optimizer, full batch and mini-batch: compiled as by a loss of Python."""
    problem = tokens_problem(np.random.default_rng(3))
    runs = [
        hm.train(each.joint(), optimizer, steps=40, start=0.1 * np.ones(5), batch=batch)
        for each in (problem, plain(problem))
    ]
    np.testing.assert_allclose(runs[0].points, runs[1].points, rtol=0, atol=1e-10)
    np.testing.assert_allclose(runs[0].v_points, runs[1].v_points, rtol=0, atol=1e-10)
    assert np.abs(np.diff(runs[0].v_points, axis=0)).max() > 1e-3


@pytest.mark.parametrize("optimizer", [*OPTIMIZERS, hm.optim.Spectral(0.05), hm.optim.Muon(0.05)], ids=repr)
def test_matrix(optimizer):
    """W by every optimizer: one step is that of the gradient by W, and the keys are W x all along."""
    rng = np.random.default_rng(4)
    problem, u = tokens_problem(rng), rng.normal(size=5)
    run = hm.train(problem.matrix(prompt=u), optimizer, steps=30)
    np.testing.assert_allclose(run.points[-1], run.W.T @ u, atol=1e-12)
    assert np.isfinite(run.W).all()
    assert not np.allclose(run.W, run.W_at(0))
    start = run.W_at(0)
    keys = type(problem.table)(np.ascontiguousarray(problem.readout.values @ start.T))
    at = problem._with(table=keys, W=start)
    pull = hm.gradient(at, u, wrt="W")
    one = hm.train(problem.matrix(prompt=u), optimizer, steps=1)
    state = optimizer.begin(start if optimizer.of_matrix else start.ravel())
    shape = start.shape if optimizer.of_matrix else start.size
    exponents = np.full(shape, pull.log_norm)
    move = optimizer.update(pull.direction.reshape(shape), exponents, state, float(optimizer.lr), 0)
    np.testing.assert_allclose(one.W - start, np.reshape(move, start.shape), atol=1e-12)


@pytest.mark.parametrize("optimizer", OPTIMIZERS[:6], ids=repr)
@pytest.mark.parametrize("batch", [None, 2])
def test_factors(optimizer, batch):
    rng = np.random.default_rng(5)
    problem = queries_problem(rng)
    start = rng.normal(size=(4, 2)), rng.normal(size=(3, 2))
    runs = [
        hm.train(each.factors(rank=2), optimizer, steps=40, start=start, batch=batch)
        for each in (problem, plain(problem))
    ]
    np.testing.assert_allclose(runs[0].K, runs[1].K, rtol=0, atol=1e-9)
    np.testing.assert_allclose(runs[0].Q, runs[1].Q, rtol=0, atol=1e-9)


def test_the_forces_are_gradients():
    """By central differences: of p and v, and of K and Q."""
    rng = np.random.default_rng(6)
    problem = tokens_problem(rng)
    slots, d = slots_of(problem), problem.d
    values = slots.merge(problem.readout.values[problem.tokens])
    layout = layout_of(problem, slots, values=values, labels=problem.readout.labels, scores=np.zeros(12))
    x, work = rng.normal(size=2 * d), workspace(12, 3, [0, d, 2 * d])
    assert pair(layout, x, work) == 0
    force = work.vectors[0] * np.exp(work.vectors[1])

    def risk(y):
        return hm.loss(with_readout(problem, y[d:]), y[:d])

    slopes = [(risk(x + 1e-6 * e) - risk(x - 1e-6 * e)) / 2e-6 for e in np.eye(2 * d)]
    np.testing.assert_allclose(force, -np.array(slopes), atol=1e-9)

    queries = queries_problem(rng)
    slots, keys = slots_of(queries), queries.table
    rows, inputs = keys.token[slots.tokens], keys.query[slots.tokens[slots.offsets[:-1]]]
    layout = layout_of(queries, slots, keys=keys.left, values=keys.right, tokens=rows, queries=inputs, rank=2)
    x, work = rng.normal(size=14), workspace(12, 3, [0, 14], room=3 * 2 + 4)
    assert factors(layout, x, work) == 0

    def risk_of_factors(y):
        return hm.loss(queries, (y[:8].reshape(4, 2) @ y[8:].reshape(3, 2).T).ravel())

    slopes = [(risk_of_factors(x + 1e-6 * e) - risk_of_factors(x - 1e-6 * e)) / 2e-6 for e in np.eye(14)]
    np.testing.assert_allclose(work.vectors[0] * np.exp(work.vectors[1]), -np.array(slopes), atol=1e-9)


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
def test_embeddings_on_the_whole_corpus(optimizer):
    """E, p and v by every optimizer; one step is that of the gradients."""
    rng = np.random.default_rng(7)
    corpus = hm.Corpus.from_sequences([[0, 2, 1], [1, 2], [0, 3]], [1, -1, 1])
    E, p, v = rng.normal(size=(4, 5)), rng.normal(size=5), rng.normal(size=5)
    model = corpus.model(d=5, start=(E, p, v))
    run = hm.train(model, optimizer, steps=60)
    assert run.losses[-1] < run.losses[0]
    one = hm.train(model, hm.optim.GD(0.3), steps=1)
    by = hm.embeddings.one_layer.gradients(corpus, E, p, v)
    np.testing.assert_allclose(one.E, E - 0.3 * by.E, atol=1e-15)
    np.testing.assert_allclose(one.v, v - 0.3 * by.v, atol=1e-15)
    mixed = hm.train(model, {"E": optimizer, "p": hm.optim.GD(0.1), "v": hm.optim.Adam(0.1)}, steps=1)
    np.testing.assert_allclose(mixed.p, p - 0.1 * by.p, atol=1e-15)
    np.testing.assert_allclose(mixed.v, v - 0.1 * np.sign(by.v), atol=1e-5)


def test_next_tokens_jointly_by_adam():
    samples = hm.nexttoken.Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"])
    run = hm.train(samples.model(joint=True), hm.optim.Adam(0.05), steps=200)
    assert run.losses[-1] < 0.1 * run.losses[0]
    assert run.method == "Adam"


def test_one_loop_per_layout():
    assert isinstance(compiled, CompiledLoop)
    assert len(compiled.signature.args) == len(edge_loop.signature.args) == 9


def models(rng):
    tokens, queries = tokens_problem(rng), queries_problem(rng)
    start = rng.normal(size=(4, 2)), rng.normal(size=(3, 2))
    yield tokens, {}
    yield tokens.joint(), {}
    yield tokens.matrix(prompt=rng.normal(size=5)), {}
    yield queries, {}
    yield queries.factors(rank=2), {"start": start}
    yield tokens.with_attention(hm.dynamics.Softmax()), {}


@pytest.mark.parametrize("optimizer", [hm.optim.Normalized(0.1), hm.optim.Adam(0.1)], ids=repr)
def test_progress_and_until_loss(optimizer):
    """A watched run has the points of the other, up to the first recorded step whose loss is low enough."""
    for model, options in models(np.random.default_rng(8)):
        whole, told = hm.train(model, optimizer, steps=100, record=10, **options), []
        losses = whole.losses
        until = float(losses[4])
        run = hm.train(
            model,
            optimizer,
            steps=100,
            record=10,
            until_loss=until,
            progress=lambda done, total, told=told: told.append((done, total)),
            **options,
        )
        ends = int(np.flatnonzero(losses <= until)[0])
        assert run.times.tolist() == whole.times.tolist()[: ends + 1]
        np.testing.assert_allclose(run.points, whole.points[: ends + 1], rtol=1e-14)
        assert told == [(10 * k, 100) for k in range(ends + 1)]
        assert run.event == "loss reached"


@pytest.mark.parametrize("coordinates", ["primal", "gram", "qr"])
def test_until_loss_in_all_coordinates(coordinates):
    problem = hm.data.sphere(n=4, T=6, d=10, rng=0)
    how = {"steps": 200, "record": 10, "coordinates": coordinates}
    whole = hm.train(problem, hm.optim.Normalized(0.1), **how)
    run = hm.train(problem, hm.optim.Normalized(0.1), until_loss=0.8 * whole.losses[0], **how)
    assert run.losses[-1] <= 0.8 * whole.losses[0] < run.losses[-2]
    assert hm.train([problem], hm.optim.Normalized(0.1), until_loss=1e9, record=10)[0].times.tolist() == [0]


class Interrupted(Exception):
    """Raised by a progress callback in place of a kill."""


@pytest.mark.parametrize("batch", [None, 2])
@pytest.mark.parametrize("optimizer", [hm.optim.Normalized(0.1), hm.optim.Adam(0.1)], ids=repr)
def test_a_checkpoint_resumes_to_the_same_bits(optimizer, batch, tmp_path):
    def interrupt(done, total):
        if done >= 60:
            raise Interrupted

    for place, (model, options) in enumerate(models(np.random.default_rng(9))):
        how = {"steps": 100, "record": 10, "batch": batch, "checkpoint_every": 2, **options}
        file, calls = tmp_path / f"{place}.npz", []
        whole = hm.train(model, optimizer, checkpoint=tmp_path / f"{place}-whole.npz", **how)
        with pytest.raises(Interrupted):
            hm.train(model, optimizer, checkpoint=file, progress=interrupt, **how)
        note = lambda done, total, calls=calls: calls.append(done)  # noqa: E731
        run = hm.train(model, optimizer, checkpoint=file, progress=note, **how)
        assert min(calls) == 50  # the last checkpoint before the interrupt
        assert (run.points == whole.points).all()
        assert run.event == whole.event
        again = hm.train(model, optimizer, checkpoint=file, **how)  # a finished one takes no step
        assert (again.points == whole.points).all()
        with pytest.raises(ValueError, match="same training"):
            hm.train(model, replace(optimizer, lr=0.2), checkpoint=file, **how)
        file.write_bytes(b"nothing")
        with pytest.raises(ValueError, match="a training of hardmax wrote"):
            hm.train(model, optimizer, checkpoint=file, **how)


def test_checkpoints_that_are_refused(tmp_path):
    problem, rule = hm.data.example("B-FIG-8"), hm.optim.GD(0.1)
    with pytest.raises(ValueError, match="folder"):
        hm.train(problem, rule, checkpoint=tmp_path / "missing" / "file.npz")
    with pytest.raises(ValueError, match="checkpoint"):
        hm.train([problem, problem], rule, checkpoint=tmp_path / "file.npz")
    with pytest.raises(ValueError, match="checkpoint_every"):
        hm.train(problem, rule, checkpoint=tmp_path / "file.npz", checkpoint_every=0)


def test_milestones_divide_the_rate_by_ten():
    for model, options in models(np.random.default_rng(10)):
        run = hm.train(model, hm.optim.Adam(0.1), steps=40, milestones=(10, 30), **options)
        rates = np.repeat([0.1, 0.1 * 0.1, 0.1 * 0.1**2], [10, 20, 10])
        other = hm.train(model, hm.optim.Adam(rates), steps=40, **options)
        np.testing.assert_allclose(run.points, other.points, rtol=1e-12)
    with pytest.raises(ValueError, match="1/L_p"):
        hm.train(hm.data.example("B-FIG-8"), hm.optim.GD("1/L_p"), milestones=(5,))
    with pytest.raises(ValueError, match="milestones"):
        hm.train(hm.data.example("B-FIG-8"), hm.optim.GD(0.1), milestones=5)


@pytest.mark.parametrize("optimizer", [hm.optim.GD(0.2), hm.optim.Adam(0.1)], ids=repr)
def test_a_matrix_in_batches(optimizer):
    """Step k sees inputs 2k and 2k + 1 of three, one after the other: as a training of these alone."""
    rng = np.random.default_rng(11)
    X, v, u = rng.normal(size=(3, 4, 5)), rng.normal(size=5), rng.normal(size=5)
    labels = np.array([1, -1, 1])
    run = hm.train(hm.Problem.from_tokens(X, labels, v).matrix(prompt=u), optimizer, steps=1, batch=2)
    part = hm.Problem.from_tokens(X[:2], labels[:2], v).matrix(prompt=u)
    np.testing.assert_allclose(run.W, hm.train(part, optimizer, steps=1).W, atol=1e-12)


def classes_problem(rng):
    """Twelve samples of three classes, with a feature that no sample has."""
    X = rng.normal(size=(12, 5))
    X[:, 2] = 0.0
    return hm.Problem.from_classes(X, np.arange(12) % 3)


@pytest.mark.parametrize("size", [0.0, 1.0, 100.0, 1e4])
def test_products_by_coordinate_are_those_of_the_written_keys(size):
    """With one exponent first, or all by logs: to 1e-12, also where attention saturates."""
    rng = np.random.default_rng(12)
    problem = scaled(classes_problem(rng)).problem
    slots = slots_of(problem)
    settled = settle_at(problem, size * rng.normal(size=problem.d), slots)
    fast = pull_by_coordinate(settled, slots.table, 12.0)
    slow = pull_by_coordinate(settled, Dense(slots.table.dense()), 12.0)
    np.testing.assert_array_equal(np.sign(fast[0]), np.sign(slow[0]))
    moving = slow[0] != 0.0
    assert moving.sum() == 12
    logs = [np.log(np.abs(V[moving])) + exponents[moving] for V, exponents, _ in (fast, slow)]
    np.testing.assert_allclose(logs[0], logs[1], rtol=1e-15, atol=1e-12)
    assert fast[2] == slow[2]


@pytest.mark.parametrize("size", [0.0, 1.0, 1000.0])
@pytest.mark.parametrize("optimizer", [hm.optim.Adam(0.1), hm.optim.Sign(0.1)], ids=repr)
def test_products_that_are_not_written_out(optimizer, size, monkeypatch):
    """Training on large products gives what the compiled loop gives on the table of them."""
    rng = np.random.default_rng(13)
    problem, start = classes_problem(rng), size * rng.normal(size=15)
    written = hm.train(problem, optimizer, steps=50, start=start)
    monkeypatch.setattr("hardmax.problem.keys.WRITTEN", 0)
    run = hm.train(problem, optimizer, steps=50, start=start)
    np.testing.assert_allclose(run.points, written.points, rtol=0, atol=1e-12 * max(written.p_norm, 1.0))
