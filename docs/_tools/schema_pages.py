"""Write docs/reference/schemas/index.md from the schemas: python docs/_tools/schema_pages.py.

Each field of a schema is listed with the attribute of the Python result that holds it. An attribute is that
of the object one level above: of the result, of an element of a list (`[]`), or of a value of an object
(`{}`); one that begins with `result.` belongs to the result. It has the name of the field unless `ATTRIBUTES`
says otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "reference" / "schemas"

# schema -> its section, and the classes of its results
SECTIONS = {
    "error": ("Where a command could not do its work", ""),
    "audit": ("`hardmax audit`", "`hm.torch.AuditResult`"),
    "certify": ("`hardmax certify`", "`CertifyResult` of `hm.certify`"),
    "doctor": ("`hardmax doctor`", "`DoctorReport` of `hm.doctor`"),
    "hunt": ("`hardmax hunt`", "`HuntResult` of `hm.hunt`; with `--catalogue` a `CatalogueResult`"),
    "ntp-check": ("`hardmax ntp check`", "`NextTokenReport` of `hm.nexttoken.check`"),
    "ntp-generate": ("`hardmax ntp generate`", "`GeneratedSentences` of `hm.nexttoken.generate_file`"),
    "ntp-predict": ("`hardmax ntp predict`", "`NextTokenPrediction` of `hm.nexttoken.predict_next`"),
    "ntp-train": ("`hardmax ntp train`", "`NextTokenTraining` of `hm.nexttoken.train_file`"),
    "play": ("`hardmax play`", "`hm.playground.Serving`; with `--export` an `ExportedPage`"),
    "probe": ("`hardmax probe`", "`ProbeResult` of `hm.probe`"),
    "reproduce": ("`hardmax reproduce`", "`ReproduceResult` of `hm.reproduce`"),
    "ledger": ("`hardmax reproduce --ledger`", "`LedgerResult` of `hm.ledger`"),
    "solve": ("`hardmax solve`", "`SolveResult` of `hm.solve`"),
    "sweep": ("`hardmax sweep`", "`SweepResult` of `hm.trials.sweep_file`; with `--trial` a `TrialResult`"),
    "text-explain": ("`hardmax text explain`", "`TextExplanation` of `hm.text.explain`"),
    "text-important": ("`hardmax text important`", "`TextTokens` of `hm.text.important`"),
    "text-train": ("`hardmax text train`", "`TextTraining` of `hm.text.train_classifier`"),
    "verify": ("`hardmax verify`", "`VerifyResult` of `hm.verify`"),
    "list": ("`hardmax verify --list`, `hardmax reproduce --list`", "`Listing` of `hm.statements`"),
}
_WORD = {"count": "occurrences"}
_SIDE = {"blind": "chance", "random_margin": "random", "nuclear_margin_interval": "nuclear_margin"}
_SIDE |= {
    "nuclear_margin": "nuclear_reached",
    **{k: f"null['{k}']" for k in ("efficiency", "cosine", "agreement")},
}
_SIDE |= {f"farkas[].{name}": f"[{k}]" for k, name in enumerate(("text", "query", "token", "weight"))}
ATTRIBUTES: dict[str, dict[str, str]] = {
    "hunt": {
        "status": "interrupted",
        "counterexample": "candidate.to_dict()",
        "counterexample.kind": "['kind']",
        "counterexample.options": "['options']",
        "size": "candidate.size",
        "size_before": "first_size",
        "slack": "judged.slack",
        "limit": "seconds",
        "refuted": "refuted",
        "table": "hunts",
        "table[].claim": "[0].claim",
        "table[].erratum": "[0].erratum",
        "table[].says": "[0].says",
        "table[].known_size": "[0].size",
        **{
            f"table[].{name}": f"[1].{name}"
            for name in ("verdict", "instances", "tries", "seconds", "commands")
        },
        "table[].size": "[1].candidate.size",
        "table[].proof": "[1].proof",
    },
    "ledger": {},
    "ntp-check": {
        "file": "name",
        "assumptions": "analysis.assumptions",
        "violations": "analysis.violations",
        "violations[].witness": "witnesses[0]",
        "violations[].more": "witnesses[1:]",
        "repaired": "analysis.repaired",
        "collocation": "analysis.n",
        "orders": "analysis.orders",
        **{f"orders{{}}.{name}": f"of_type('{name}')" for name in ("optimal", "non_optimal", "confused")},
        "orders{}.non_comparable": "types",
        "orders{}.status": "V",
        "components": "analysis.components",
        "sentences.count": "n",
        "vocabulary": "sentences.V",
        "samples": "analysis.samples",
        "frequencies": "analysis.frequencies",
        "frequencies.uniform": "result.uniform",
        "frequencies.smallest": "result.analysis.frequencies()[0]",
        "frequencies.largest": "result.analysis.frequencies()[1]",
        "frequencies.status": "result.analysis.samples",
        "notes": "sentences.notes",
        "realizable_part": "part",
        "realizable_part.sentences": "whole",
    },
    "ntp-generate": {
        "realizable": "analysis.realizable",
        "violations": "analysis.violations",
        "sentences": "made.sentences",
        "collocation": "made.n",
        "lags": "made.lag",
        "samples": "analysis.samples",
        "longest": "analysis.text.longest",
    },
    "ntp-predict": {
        "next": "prediction.next(10)",
        "next[].token": "[0]",
        "next[].probability": "[1]",
        "attended": "prediction.attended",
        "attended[].token": "word",
        "rule": "prediction.rule",
        "reason": "prediction.reason",
    },
    "ntp-train": {
        "steps": "reached.steps",
        "stage1": "run.stage_1_steps",
        "eta": "run.rate",
        "eta0": "run.first_rate",
        "realizable": "analysis.realizable",
        "repaired": "analysis.repaired",
        **{
            name: f"run.{name}"
            for name in (
                "loss",
                "excess_loss",
                "log_excess_loss",
                "norm_ov",
                "norm_kq",
                "misalignment_ov",
                "misalignment_kq",
                "conditions",
            )
        },
        "signed_steps": "reached.signed_steps",
        "conditions[].condition": "result.run.conditions.keys()",
        "conditions[].step": "[0]",
        "conditions[].bound": "[1]",
        "conditions[].holds": "[:]",
        "conditions[].status": "[1]",
        "status": "fields()['status']",
    },
    "probe": {
        **{name: f"heads.{name}" for name in ("seed", "texts", "queries", "null", "rotary", "notes")},
        "heads": "heads.ranked",
        "heads[].top_mass": "mass",
        "heads[].status": "why",
        **{f"heads[].{kind}.{name}": text for kind in ("all", "inner") for name, text in _SIDE.items()},
        "summary": "heads.summary",
        "summary.all": "('all')",
        "summary.inner": "('inner')",
        **{
            f"summary.{kind}{{}}.{name}": f"['{name}']"
            for kind in ("all", "inner")
            for name in ("heads", "above", "below", "p_above", "p_below", "median", "null_median", "spearman")
        },
    },
    "reproduce": {
        "figures[].status": "error",
        "counts": "fields()['counts']",
        **{
            f"counts.{kind}{dot}": f"['{name}']"
            for kind in ("own_data", "stand_ins")
            for dot, name in (("", kind), (".held", "held"), (".claims", "claims"))
        },
    },
    "solve": {
        "feasible": "found",
        "norm_name": "norm",
        "multiplicities": "problem.groups",
        "multiplicities[].token": "tolist()",
        "multiplicities[].count": "tolist()",
        "selections[].norm": "max_margin.p_norm",
        "selections[].margin_interval": "max_margin.margin_interval",
        "selections[].kkt": "max_margin.kkt",
        "selections[].certificate": "max_margin.arithmetic",
        "selections[].support": "max_margin.support",
        "selections[].locally_optimal": "attracts.verdict",
        "selections[].globally_optimal": "is_best",
        "selections[].status": "attracts",
        "global": "best",
        "global[].selection": "[0]",
        "global[].feasible": "[1].is_feasible",
        "global[].status": "[1].status",
        "global[].farkas": "[1].farkas",
        "global[].farkas[].row": "tolist()",
        "global[].farkas[].weight": "tolist()",
        "decomposition.scope": "is_local",
        "decomposition.dimension": "S.shape[1]",
        "decomposition.bound[].row": "[0]",
        "decomposition.bound[].weight": "[1]",
        "decomposition.p_fin": "finite.p",
        "decomposition.radius": "finite.radius",
        "decomposition.inf_risk": "finite.risk",
        "flow.clock": "path.clock",
        "flow.log_time": "path.times[-1]",
        "flow.norm": "path.p_norm",
        "flow.direction": "path.direction",
        "flow.event": "path.event",
    },
    "sweep": {
        **{
            f"failures[].{name}": f"['{name}']"
            for name in ("cell", "trial", "seed", "parameters", "error", "command")
        },
        **{f"summary[].{name}": f"['{name}']" for name in ("parameters", "done", "failed", "results")},
        **{
            f"summary[].results{{}}.{name}": f"['{name}']"
            for name in ("k", "n", "interval", "text", "mean", "standard_error", "quantiles", "status")
        },
    },
    "text-explain": {
        **{name: f"explanation.{name}" for name in ("label", "probability", "score", "predicted")},
        "tokens": "explanation.parts",
        "tokens[].count": "occurrences",
        "tokens[].attention": "share",
        "unknown_words": "explanation.unknown",
    },
    "text-important": {"tokens": "important.words", "tokens[].count": "occurrences"},
    "text-train": {
        "classes": "classifier.classes_",
        "tokens": "classifier.attention_",
        "passes": "classifier.n_iter_",
        "loss": "classifier.loss_curve_[-1]",
        "held_out": "kept",
        "held_out.texts": "predictions",
        "held_out.accuracy": "full_accuracy",
        "held_out.majority": "result.majority",
        "held_out.top_tokens": "k",
        "held_out.top_accuracy": "accuracy",
        "held_out.top_attention": "attended",
        "held_out.tokens_for_90_percent": "needed",
        "status": "kept",
        "important": "important.words",
        "important[].count": "occurrences",
    },
    "verify": {
        **{
            f"checks[].{name}": f"check.{name}"
            for name in (
                "id",
                "instance",
                "hypotheses",
                "verdict",
                "slack",
                "witness",
                "kind",
                "proof",
                "paper_verdict",
                "errata",
                "label",
            )
        },
        "checks[].status": "good",
    },
}


def fields(name: str) -> dict[str, str]:
    """Return the paths of all fields of a schema, and what it says of each."""
    schema = json.loads((FOLDER / f"{name}.schema.json").read_text(encoding="utf-8"))
    found: dict[str, str] = {}
    for path, text in _fields(schema, schema, ""):
        found.setdefault(path, text)
    return found


def _fields(root: Any, schema: Any, path: str) -> Iterator[tuple[str, str]]:
    schema = _resolved(root, schema)
    for name, inner in schema.get("properties", {}).items():
        yield f"{path}{name}", _resolved(root, inner).get("description", "")
        yield from _fields(root, inner, f"{path}{name}.")
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(key), dict):
            yield from _fields(root, schema[key], f"{path[:-1]}{mark}.")
    for inner in [*schema.get("oneOf", []), *schema.get("anyOf", []), *schema.get("allOf", [])]:
        yield from _fields(root, inner, path)


def _resolved(root: Any, schema: Any) -> Any:
    while "$ref" in schema:
        target = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        schema = {**target, **{name: x for name, x in schema.items() if name != "$ref"}}
    return schema


def attribute(name: str, path: str) -> str:
    """Return the attribute of the object one level above that holds a field."""
    return ATTRIBUTES.get(name, {}).get(path, path.split(".")[-1])


def page() -> str:
    """Return the text of the page."""
    lines = [
        "# JSON schemas",
        "",
        "What each command prints with `--json`, as JSON Schema (draft 2020-12). "
        "[The command line](../command-line.md) explains the commands; tests check every output against its "
        "schema. The tables list the attribute of the Python result that holds a field. An attribute belongs "
        "to the object one level above: the result, an element of a list (`[]`), or a value of an object "
        "(`{}`). An attribute that begins with `result.` belongs to the result. `schema` and "
        "`version` are in every object.",
    ]
    for name, (title, result) in SECTIONS.items():
        lines += ["", f"## {title}", "", f"[{name}.schema.json]({name}.schema.json)"]
        if result:
            lines += ["", f"In Python: {result}.", "", "| field | Python attribute | |", "|---|---|---|"]
            for path, text in fields(name).items():
                if path not in ("schema", "version"):
                    cells = (f"`{path}`", f"`{attribute(name, path)}`", text)
                    lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines += ["", f"```{{literalinclude}} {name}.schema.json", ":language: json", "```"]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    (FOLDER / "index.md").write_text(page(), encoding="utf-8")
