"""The questions of the golden pack in the Python names of 0.2.

`answer(question)` returns quantities by name; the part before a dot decides how two trees are compared, by
`RULES` of golden.py: point, chaotic, gap, direction, log_time, interval, float, slack, json. All else must be
equal.
"""

import contextlib
import importlib
import io
import json
import math
import tempfile
from pathlib import Path

import numpy as np

import hardmax as hm

PLAIN_SLOPES = {
    "logistic": lambda u: -math.log1p(math.exp(u)) if u < 700 else -u,
    "exponential": lambda u: -u,
    "correlation": lambda u: 0.0,
}
VALUES = {
    "logistic": lambda u: np.logaddexp(0.0, -u),
    "exponential": lambda u: np.exp(-u),
    "correlation": lambda u: -u,
}
OPTIMIZERS = {
    "gd": "GD",
    "normalized": "Normalized",
    "sign": "Sign",
    "coordinate": "Coordinate",
    "spectral": "Spectral",
    "mirror": "Mirror",
    "momentum": "Momentum",
    "signum": "Signum",
    "muon": "Muon",
    "adam": "Adam",
    "adamw": "AdamW",
    "rmsprop": "RMSprop",
    "sgd": "SGD",
}


def problem_of(q):
    """Make the problem of a question; a plain one has its loss as a Python function."""
    loss = q.get("loss", "logistic")
    if q.get("plain"):
        loss = hm.Loss(f"plain {loss}", VALUES[loss], PLAIN_SLOPES[loss])
    if "queries" in q:
        return hm.Problem.from_queries(q["keys"], q["queries"], q["scores"], loss=loss)
    if "labels" in q:
        return hm.Problem.from_tokens(q["keys"], q["labels"], q["readout"], loss=loss)
    return hm.Problem.from_scores(q["keys"], q["scores"], loss=loss)


def optimizer_of(spec):
    options = {name: x for name, x in spec.items() if name not in ("name", "lr", "eps")}
    if "eps" in spec:
        options["epsilon"] = spec["eps"]
    return getattr(hm.steps, OPTIMIZERS[spec["name"]])(spec["lr"], **options)


def tokens_of(selection):
    return [list(each) for each in selection.sets]


def train(q):
    problem, rule = problem_of(q), optimizer_of(q["optimizer"])
    model = {
        "p": {},
        "joint": {"wrt": ("p", "v")},
        "matrix": {"wrt": "W", "prompt": q.get("prompt")},
        "factors": {"factors": q.get("rank")},
    }.get(q["model"])
    if q["model"] == "remainder":
        model = {"split": hm.decompose(problem)}
    run = hm.descend(problem, rule, steps=q["steps"], start=q.get("start"), record=q["record"], **model)
    name = "chaotic" if q["chaotic"] else "point"
    found = {"event": run.event, "times": [*map(int, run.times)], "selection": tokens_of(run.selection())}
    if q["model"] == "factors":
        return found | {f"{name}.K": run.K.ravel(), f"{name}.Q": run.Q.ravel()}
    found["point.early"] = run.points[1]
    found[f"{name}.p"] = np.ravel(run.points[2:])
    if run.heads is not None:
        found[f"{name}.v"] = run.heads[-1]
    if q["chaotic"] and run.selection().is_unique:
        found["gap"] = float(problem_gap(problem, run))
    return found


def problem_gap(problem, run):
    """Return the least lead of a selected token over the length of p."""
    logits = problem.split(problem.keys[problem.tokens] @ run.p)
    leads = [z[t] - np.delete(z, t).max() for z, t in zip(logits, run.selection().tokens, strict=True)]
    return min(leads) / np.linalg.norm(run.p)


def train_list(q):
    runs = hm.descend_batch(
        [problem_of(each) for each in q["problems"]], optimizer_of(q["optimizer"]), steps=q["steps"]
    )
    return {
        "events": [run.event for run in runs],
        "selections": [tokens_of(run.selection()) for run in runs],
        "point": np.concatenate([run.p for run in runs]),
    }


def flow(q):
    options = {
        name: q[name]
        for name in ("clock", "norm", "mirror", "until_norm", "until_length", "start")
        if name in q
    }
    problem = problem_of(q)
    if q.get("remainder"):
        options["split"] = hm.decompose(problem)
    run = hm.flow(problem, **options)
    return {
        "event": run.event,
        "selection": tokens_of(run.selection()),
        "direction": run.direction,
        "log_time": float(run.times[-1]),
    }


def margin(q):
    best = hm.max_margin(problem_of(q), q["selection"], norm=q["norm"], exact=q.get("exact", False))
    return margin_quantities(best) | {
        "certified": hm.certify(best.to_dict()).valid if q.get("certify") else None
    }


def margin_quantities(best):
    """Return what is compared of a margin: nothing where it is undecided, which a version may improve on."""
    if best.status == "undecided":
        return {}
    found = {"status": best.status, "arithmetic": best.certificate, "interval": best.margin_interval}
    if best.exact is not None and best.exact.norm_squared is not None:
        found["exact"] = str(best.exact.norm_squared)
    if best.norm_name == "l2" and best.is_feasible:
        found |= {"float.p": best.p, "support": [*map(list, best.support)]}
    return found


def margin_list(q):
    problems, chosen = (
        [problem_of(each) for each in q["problems"]],
        [each["selection"] for each in q["problems"]],
    )
    found = hm.max_margin_batch(problems, chosen, norm=q["norm"])
    return {f"{name}.{k}": x for k, best in enumerate(found) for name, x in margin_quantities(best).items()}


def solve(q):
    return {"json": clean(hm.solve(problem_of(q), all=True, critical=len(q["keys"]) < 3).json())}


def corpus_of(q):
    return hm.Corpus.from_sequences(q["sequences"], q["labels"])


def embeddings(q):
    corpus, (E, p, v) = corpus_of(q), q["start"]
    if q["way"] == "vectors":
        run = hm.embeddings.descend_embeddings(
            corpus, E, p, v, steps=q["steps"], rate=q["lr"], train=q["blocks"]
        )
        return {"point.p": run.p, "float": run.losses}
    if q["way"] == "gram":
        state = hm.embeddings.GramState.from_vectors(E, p, v)
        run = hm.embeddings.descend_gram(corpus, state, steps=q["steps"], rate=q["lr"], train=q["blocks"])
        return {"point.a": run.a[-1], "point.c": run.c[-1], "float": run.losses}
    if q["way"] == "flow":
        state = hm.embeddings.GramState.from_vectors(E, p, v)
        run = hm.embeddings.flow_gram(corpus, state, times=[0, 1, 100], train=q["blocks"])
        return {"direction.a": run.state.a, "float": run.losses}
    if q["way"] == "two layers":
        state = hm.embeddings.TwoLayerGram.from_vectors(E, p, v)
        run = hm.embeddings.descend_two_layer(corpus, state, steps=q["steps"], rate=q["lr"])
        return {"float": run.losses}
    run = hm.embeddings.train_embeddings(
        corpus,
        len(p),
        optimizer_of(q["optimizer"]),
        epochs=q["steps"],
        batch=3,
        rng=0,
        start=(E, p, v),
        dtype="float64",
    )
    return {"point.p": run.p, "float": run.losses}


def next_tokens(q):
    samples = hm.nexttoken.Samples.from_sentences(q["sentences"])
    if q["way"] == "stages":
        run = hm.nexttoken.train(samples, steps=q["steps"], rate=q["lr"])
        return {
            "point": run.a,
            "float": run.loss,
            "float.kq": run.misalignment_kq,
            "star": str(run.star.norm_squared),
        }
    if q["way"] == "flow":
        run = hm.nexttoken.train_by_flow(samples, 1e8, rate=q["lr"])
        return {"direction": run.a / np.linalg.norm(run.a), "float": run.misalignment_kq}
    if q["way"] == "joint":
        return {"float": hm.nexttoken.train_jointly(samples, q["steps"], q["lr"]).losses}
    start = hm.nexttoken.Unmerged.random(samples, np.eye(samples.V), 4, 4, scale=0.1, rng=0)
    return {"float": hm.nexttoken.train_unmerged(start, q["steps"], q["lr"]).losses}


def classifier(q):
    model = hm.text.AttentionClassifier(n_jobs=1).fit(q["texts"], q["labels"])
    return {"float": model.predict_proba(q["asked"]).ravel(), "classes": [*map(str, model.classes_)]}


def clean(told):
    """Leave out what a second run would not repeat, and sentences: they are words for people."""
    if isinstance(told, dict):
        gone = (
            "version",
            "seconds",
            "files",
            "report",
            "model",
            "store",
            "saved",
            "out",
            "detail",
            "page",
            "picture",
        )
        return {name: clean(x) for name, x in told.items() if name not in gone}
    if isinstance(told, str):
        return told if told.count(" ") < 3 else "..."
    return [clean(each) for each in told] if isinstance(told, list | tuple) else told


def module(here, before):
    """Import a module of this tree, from its place or from the one before 0.2's papers moved."""
    with contextlib.suppress(ModuleNotFoundError):
        return importlib.import_module(here)
    return importlib.import_module(before)


def command(q):
    cli = module("hardmax.app.cli", "hardmax.cli")
    with tempfile.TemporaryDirectory() as folder:
        for name, content in q["files"].items():
            Path(folder, name).write_text(content)
        for words in q["before"]:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                cli.run([word.replace("DIR", folder) for word in words])
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            code = cli.run([*(word.replace("DIR", folder) for word in q["words"]), "--json"])
        return {"exit_code": code, "json": clean(json.loads(out.getvalue().replace(folder, "DIR")))}


def statement_instances():
    """Return (id, number of the instance) of all statements."""
    instances = module("hardmax.papers.checking.instances", "hardmax.theory.instances").instances

    counts: dict[str, int] = {}
    for each in instances():
        counts[each.id] = counts.get(each.id, 0) + 1
    return [(id, k) for id, count in counts.items() for k in range(count)]


def statement(q):
    instances = module("hardmax.papers.checking.instances", "hardmax.theory.instances").instances

    found = instances([q["id"]])[q["number"]].run()
    slack = found.slack if found.slack is None or math.isfinite(found.slack) else str(found.slack)
    held = [[each.id, each.holds] for each in found.hypotheses]
    return {
        "verdict": found.verdict,
        "paper_verdict": found.paper_verdict,
        "hypotheses": held,
        "slack": slack,
    }


def figures():
    PAPERS = module("hardmax.papers.registry", "hardmax.papers").PAPERS

    return [id for paper in PAPERS.values() for id in paper.figures]


def figure(q):
    found = hm.figure(q["id"])
    return {
        "claims": [[claim.id, claim.expected, claim.holds] for claim in found.claims],
        "json.measured": [claim.measured for claim in found.claims],
    }


def answer(question):
    """Return the quantities of a question; a question that is refused has only that one."""
    try:
        return globals()[question["kind"]](question)
    except (ValueError, TypeError, ArithmeticError, NotImplementedError, ImportError) as refusal:
        return {"refused": True, "note": f"{type(refusal).__name__}: {refusal}"}
