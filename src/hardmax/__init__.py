"""hardmax: the laboratory for the implicit bias of attention."""

from __future__ import annotations

from hardmax._lib.lazy import lazy

__version__ = "0.2.0"

# Public packages and modules: hm.heads, hm.steps, ...
_MODULES = {
    "data": "data",
    "directions": "directions",
    "embeddings": "embeddings",
    "figures": "papers.figures",
    "heads": "heads",
    "limits": "limits",
    "margin": "margin",
    "nexttoken": "nexttoken",
    "papers": "papers",
    "playground": "app.playground",
    "steps": "steps",
    "text": "text",
    "theory": "papers.checking",
    "torch": "torch",
    "train": "dynamics",
    "trials": "trials",
}

# Public name -> the file it lives in. Nothing is imported before it is asked for.
_NAMES = {
    "Constraints": "margin.constraints",
    "Corpus": "data.corpora.corpus",
    "Loss": "problem.losses",
    "MaxMargin": "margin.solution",
    "Problem": "problem.problem",
    "Run": "dynamics.run",
    "Selection": "problem.selection",
    "Sweep": "trials.results",
    "attention": "dynamics.measures",
    "certify": "app.results.certify",
    "check_statement": "papers.checking.check",
    "critical_directions": "directions.critical",
    "decompose": "limits.decomposition",
    "defect": "dynamics.measures",
    "descend": "dynamics.descent",
    "descend_batch": "dynamics.descent",
    "doctor": "app.results.doctor",
    "excess_risk": "dynamics.measures",
    "feasible_selections": "directions.enumerate",
    "figure": "papers.figures.figure",
    "flow": "dynamics.flow",
    "global_max_margins": "margin.att_svm",
    "gradient": "dynamics.gradient",
    "hessian": "dynamics.gradient",
    "hunt": "app.results.hunt",
    "is_globally_optimal": "problem.selection",
    "is_locally_optimal": "directions.neighbors",
    "ledger": "app.results.ledger",
    "locally_optimal": "directions.enumerate",
    "max_margin": "margin.att_svm",
    "max_margin_batch": "margin.att_svm",
    "misalignment": "_lib.arrays",
    "neighbors": "directions.neighbors",
    "optimal_tokens": "problem.selection",
    "play": "app.playground.playing",
    "probe": "app.results.probe",
    "regularization_path": "limits.global_path",
    "reproduce": "app.results.reproduce",
    "risk": "dynamics.measures",
    "selected_tokens": "problem.selection",
    "solve": "app.results.solve",
    "statements": "app.results.listing",
    "sweep": "trials.sweep",
    "verify": "app.results.verify",
}

__getattr__, __dir__, _public = lazy(__name__, _NAMES, _MODULES)
__all__ = ["__version__", *_public]
