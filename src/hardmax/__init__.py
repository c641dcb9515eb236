"""hardmax: the laboratory for the implicit bias of attention."""

from __future__ import annotations

from hardmax._lib.lazy import lazy

__version__ = "0.2.0"

# Public packages and modules: hm.heads, hm.steps, ...
_MODULES = {
    "answers": "answers",
    "data": "data",
    "directions": "directions",
    "embeddings": "embeddings",
    "figures": "figures",
    "heads": "heads",
    "limits": "limits",
    "margin": "margin",
    "nexttoken": "nexttoken",
    "papers": "papers",
    "playground": "playground",
    "steps": "steps",
    "text": "text",
    "theory": "theory",
    "torch": "torch",
    "train": "train",
    "trials": "trials",
}

# Public name -> the file it lives in. Nothing is imported before it is asked for.
_NAMES = {
    "Constraints": "margin.constraints",
    "Corpus": "data.corpora.corpus",
    "Loss": "problem.losses",
    "MaxMargin": "margin.solution",
    "Problem": "problem.problem",
    "Run": "train.run",
    "Selection": "problem.selection",
    "Sweep": "trials.results",
    "attention": "train.measures",
    "certify": "answers.certified",
    "check": "theory.check",
    "checks": "theory.check",
    "critical_directions": "directions.critical",
    "decompose": "limits.decomposition",
    "defect": "train.measures",
    "descend": "train.descent",
    "descend_batch": "train.descent",
    "excess_risk": "train.measures",
    "feasible_selections": "directions.enumerate",
    "figure": "figures.figure",
    "flow": "train.flow",
    "global_max_margins": "margin.att_svm",
    "gradient": "train.gradient",
    "hessian": "train.gradient",
    "hunt": "answers.hunts",
    "is_globally_optimal": "problem.selection",
    "is_locally_optimal": "directions.neighbors",
    "ledger": "answers.ledger",
    "locally_optimal": "directions.enumerate",
    "max_margin": "margin.att_svm",
    "max_margin_batch": "margin.att_svm",
    "misalignment": "_lib.arrays",
    "neighbors": "directions.neighbors",
    "optimal_tokens": "problem.selection",
    "play": "playground.playing",
    "regularization_path": "limits.global_path",
    "reproduce": "answers.reproduction",
    "risk": "train.measures",
    "selected_tokens": "problem.selection",
    "solve": "answers.solving",
    "sweep": "trials.sweep",
    "verify": "answers.verified",
}

__getattr__, __dir__, _public = lazy(__name__, _NAMES, _MODULES)
__all__ = ["__version__", *_public]
