"""The questions of the golden pack in the Python names of 0.3: what differs from `v0_2`."""

import importlib.util
from pathlib import Path

import numpy as np

import hardmax as hm
from hardmax.nexttoken.unmerged import Unmerged

_spec = importlib.util.spec_from_file_location("golden_adapter_before", Path(__file__).with_name("v0_2.py"))
_before = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_before)
answer, statement_instances = _before.answer, _before.statement_instances


def problem_of(q):
    """Make the problem of a question; a plain one has its loss as a Python function."""
    loss = q.get("loss", "logistic")
    if q.get("plain"):
        loss = hm.LossFunction(f"plain {loss}", _before.VALUES[loss], _before.PLAIN_SLOPES[loss])
    if "queries" in q:
        return hm.Problem.from_queries(q["keys"], q["queries"], q["scores"], loss=loss)
    if "labels" in q:
        return hm.Problem.from_tokens(q["keys"], q["labels"], q["readout"], loss=loss)
    return hm.Problem(q["keys"], q["scores"], loss=loss)


def optimizer_of(spec):
    options = {name: x for name, x in spec.items() if name != "name"}
    return getattr(hm.optim, _before.OPTIMIZERS[spec["name"]])(**options)


def train(q):
    problem = problem_of(q)
    model = {
        "p": lambda: problem,
        "joint": problem.joint,
        "matrix": lambda: problem.matrix(prompt=q["prompt"]),
        "factors": lambda: problem.factors(rank=q["rank"]),
        "remainder": lambda: hm.decompose(problem).remainder,
    }[q["model"]]()
    options = {"steps": q["steps"], "start": q.get("start"), "record": q["record"]}
    run = hm.train(model, optimizer_of(q["optimizer"]), **options)
    name = "chaotic" if q["chaotic"] else "point"
    found = {
        "event": run.event,
        "times": [*map(int, run.times)],
        "selection": _before.tokens_of(run.selection),
    }
    if q["model"] == "factors":
        return found | {f"{name}.K": run.K.ravel(), f"{name}.Q": run.Q.ravel()}
    found["point.early"] = run.points[1]
    found[f"{name}.p"] = np.ravel(run.points[2:])
    if run.v_points is not None:
        found[f"{name}.v"] = run.v_points[-1]
    if q["chaotic"] and run.selection.is_unique:
        found["gap"] = float(problem_gap(problem, run))
    return found


def problem_gap(problem, run):
    """Return the least lead of a selected token over the length of p."""
    logits = problem.split(problem.keys[problem.tokens] @ run.p)
    leads = [z[t] - np.delete(z, t).max() for z, t in zip(logits, run.selection, strict=True)]
    return min(leads) / np.linalg.norm(run.p)


def train_list(q):
    problems = [problem_of(each) for each in q["problems"]]
    runs = hm.train(problems, optimizer_of(q["optimizer"]), steps=q["steps"])
    return {
        "events": [run.event for run in runs],
        "selections": [_before.tokens_of(run.selection) for run in runs],
        "point": np.concatenate([run.p for run in runs]),
    }


def flow(q):
    names = ("clock", "norm", "mirror", "until_norm", "until_length", "start")
    problem = problem_of(q)
    model = hm.decompose(problem).remainder if q.get("remainder") else problem
    run = hm.flow(model, **{name: q[name] for name in names if name in q})
    return {
        "event": run.event,
        "selection": _before.tokens_of(run.selection),
        "direction": run.direction,
        "log_time": float(run.times[-1]),
    }


def margin_quantities(best):
    """Return what is compared of a margin: nothing where it is undecided, which a version may improve on."""
    if best.status == "undecided":
        return {}
    found = {"status": best.status, "arithmetic": best.arithmetic, "interval": best.margin_interval}
    if best.exact is not None and best.exact.norm_squared is not None:
        found["exact"] = str(best.exact.norm_squared)
    if best.norm == "l2" and best.is_feasible:
        found |= {"float.p": best.p, "support": [*map(list, best.support)]}
    return found


def margin_list(q):
    problems = [problem_of(each) for each in q["problems"]]
    found = hm.max_margin(problems, [each["selection"] for each in q["problems"]], norm=q["norm"])
    return {f"{name}.{k}": x for k, best in enumerate(found) for name, x in margin_quantities(best).items()}


def embeddings(q):
    corpus, way = _before.corpus_of(q), q["way"]
    if way == "mini-batches":
        model = corpus.model(start=q["start"])
        options = {"epochs": q["steps"], "batch": 3, "rng": 0, "dtype": "float64"}
        run = hm.train(model, optimizer_of(q["optimizer"]), **options)
        return {"point.p": run.p, "float": run.losses}
    if way == "two layers":
        model = corpus.model(layers=2, start=q["start"])
        return {"float": hm.train(model, hm.optim.GD(lr=q["lr"]), steps=q["steps"]).losses}
    start = q["start"] if way == "vectors" else hm.embeddings.GramState.from_vectors(*q["start"])
    model = corpus.model(blocks=q["blocks"], start=start)
    if way == "flow":
        run = hm.flow(model, times=[0, 1, 100])
        return {"direction.a": run.state.a, "float": run.losses}
    run = hm.train(model, hm.optim.GD(lr=q["lr"]), steps=q["steps"])
    moved = {"point.p": run.p} if way == "vectors" else {"point.a": run.a[-1], "point.c": run.c[-1]}
    return moved | {"float": run.losses}


def next_tokens(q):
    samples = hm.nexttoken.Samples.from_sentences(q["sentences"])
    model, optimizer = samples.model(), hm.optim.Normalized(lr=q["lr"])
    stages = model.optimizers | {"W_kq": optimizer}
    if q["way"] == "stages":
        run = hm.train(model, stages, steps=q["steps"])
        found = {"point": run.a, "float": run.loss, "float.kq": run.misalignment_kq}
        return found | {"star": str(run.star.norm_squared)}
    if q["way"] == "flow":
        run = hm.flow(model, until=1e8, optimizer=stages)
        return {"direction": run.a / np.linalg.norm(run.a), "float": run.misalignment_kq}
    if q["way"] == "joint":
        model = samples.model(joint=True)
    else:
        drawn = {"scale": 0.1, "rng": 0}
        model = samples.model(weights=Unmerged.random(samples, np.eye(samples.V), 4, 4, **drawn))
    return {"float": hm.train(model, optimizer, steps=q["steps"]).losses}


def figures():
    from hardmax.papers.registry import PAPERS

    return [id for paper in PAPERS.values() for id in paper.figures]


_OWN = ("problem_of", "optimizer_of", "train", "train_list", "flow", "margin_quantities", "margin_list")
vars(_before).update({name: globals()[name] for name in (*_OWN, "embeddings", "next_tokens")})
