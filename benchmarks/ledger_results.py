"""Write the stored results behind the ledger: what verify and reproduce find, and some numbers of the papers.

    python benchmarks/ledger_results.py                      # runs both commands, about 6 minutes of CPU time
    python benchmarks/ledger_results.py --verify V.json --reproduce R.json   # their --json, as made before
    python benchmarks/ledger_results.py --data DIR           # also counts the words of IMDB's reviews there

Results go to the file that `hardmax reproduce --ledger` reads. Trainings of hours have a file of their own:
paper_a_runs.py. A figure of --reproduce takes the place of the one that is stored; with --add the others
stay, so that single figures can be made at another scale.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import report

import hardmax as hm
from hardmax.papers.figures.claims import shown
from hardmax.papers.stored import RESULTS, read_results

LONGEST = 60  # characters of what a claim measured


def run(*arguments: str) -> Any:
    """The JSON of a command of hardmax."""
    line = [sys.executable, "-m", "hardmax", *arguments, "--json"]
    return json.loads(subprocess.run(line, stdout=subprocess.PIPE, check=False).stdout)


def checks_of(answer: dict[str, Any]) -> dict[str, Any]:
    """For each statement of a paper: verdicts as expected, and those on the printed wording.

    Where no verdict on that is given the wording is the corrected one. An instance on which it must fail says
    nothing then: it is there to show that the check can fail.
    """
    found: dict[str, dict[str, Any]] = {}
    for check in answer["checks"]:
        if check["id"].startswith("D-"):
            continue
        kept = found.setdefault(
            check["id"], {"checks": 0, "as_expected": 0, "printed": Counter(), "errata": check["errata"]}
        )
        kept["checks"] += 1
        kept["as_expected"] += check["verdict"] == check["expected"]
        printed = check["paper_verdict"]
        if printed is None and check["verdict"] in ("holds", "vacuous", "consistent"):
            printed = check["verdict"]
        if printed is not None:
            kept["printed"][printed] += 1
    return {id: {**kept, "printed": dict(kept["printed"])} for id, kept in sorted(found.items())}


def figures_of(answer: dict[str, Any], scale: str) -> dict[str, Any]:
    """For each figure of a paper: its claims, with what was measured where the paper prints a number."""
    return {
        figure["id"]: {
            "scale": scale,
            "claims": {
                claim["id"]: {"holds": claim["holds"], "stand_in": claim["stand_in"]}
                | (
                    {}
                    if claim["paper"] is None
                    else {"measured": shown(claim["measured"])[:LONGEST], "expected": claim["expected"]}
                )
                for claim in figure["claims"]
            },
        }
        for figure in answer["figures"]
        if not figure["id"].startswith("D-") and figure["status"] == "made"
    }


def facts_of(data: Path | None) -> dict[str, Any]:
    """Numbers that no figure and no check holds."""
    printed, ours = hm.embeddings.KLevel.as_printed(), hm.embeddings.KLevel()
    ratio = float(ours.irrelevant_probability / ours.relevant_probability)
    total = sum(ours.probabilities(1))
    facts = {
        "k-level sizes": (ours.S == 2048, f"{printed.S:,} tokens as printed, {ours.S:,} with 4 + 2^k"),
        "probabilities of (34)": (total == 1, f"sum {total} with delta-tilde"),
        "equal frequencies": (ratio == 1, f"irrelevant tokens are {ratio:.1f} times as frequent"),
        **lemmas_12_and_13(),
    }
    if data is not None:
        words = imdb_words(data)
        facts["IMDB words"] = (
            words.size == 50_000 and abs(words.mean() - 239) < 1,
            f"{words.size:,} reviews of {words.mean():.1f} words",
        )
        yelp = hm.embeddings.yelp_corpus(data)
        facts["Yelp reviews"] = (
            yelp.report.reviews > 0,
            f"{yelp.report.reviews:,} of {yelp.report.read:,} reviews pass; {yelp.corpus.S:,} tokens",
        )
    return {name: {"holds": bool(holds), "text": text} for name, (holds, text) in facts.items()}


def lemmas_12_and_13() -> dict[str, tuple[bool, str]]:
    """The joint path on the data of figure 3(b), r = 1.5 R: least rows, and angles to both directions."""
    from hardmax.directions.joint_margins import label_max_margin, relaxed_max_margin
    from hardmax.limits import joint_path

    problem, tokens, radii = hm.data.example("B-FIG-3b"), (1, 1, 1), [10.0, 20.0, 30.0]
    path = joint_path(problem, radii, rho=1.5)
    relaxed, label = relaxed_max_margin(problem, tokens), label_max_margin(problem, tokens)
    rows_of = hm.max_margin(problem, tokens).constraints
    least = [float(rows_of.along(p).min()) for p in path.points]
    angles = [
        float(np.degrees(np.arccos(1 - hm.cosine_distance(end, found.p))))
        for end, found in ((path.points[-1], relaxed), (path.v_points[-1], label))
    ]
    rows = ", ".join(f"{x:.3g}" for x in least)
    return {
        "Lemma 12": (min(least) >= -1e-9, f"least row {rows} at R = 10, 20, 30"),
        "Lemma 13": (
            min(least) >= -1e-9 and max(angles) < 1.0,
            f"at R = 30 p is {angles[0]:.2g} and v {angles[1]:.2g} degrees away",
        ),
    }


def imdb_words(data: Path) -> np.ndarray:
    """Runs of letters and digits in each review of IMDB, those of its line breaks too."""
    from hardmax.data.reviews import find_reviews, read_reviews

    reviews = (review for path in find_reviews(data, "imdb") for review in read_reviews(path))
    return np.array([len(re.findall(r"\w+", review.text)) for review in reviews])


def main() -> None:
    options = report.parser(__doc__)
    options.add_argument("--verify", metavar="FILE", type=Path)
    options.add_argument("--reproduce", metavar="FILE", type=Path)
    options.add_argument("--scale", default="quick", help="at which --reproduce was made")
    options.add_argument("--data", metavar="DIR", type=Path)
    options.add_argument("--add", action="store_true", help="keep what is stored and not made again")
    asked = options.parse_args()
    before = read_results() if asked.add else {"checks": {}, "figures": {}, "facts": {}}
    checks = figures = {}
    if asked.verify is not None or not asked.add:
        checks = checks_of(json.loads(asked.verify.read_text()) if asked.verify else run("verify"))
    if asked.reproduce is not None or not asked.add:
        with tempfile.TemporaryDirectory() as folder:
            answer = (
                json.loads(asked.reproduce.read_text())
                if asked.reproduce
                else run("reproduce", "--scale", asked.scale, "--out", folder)
            )
        figures = figures_of(answer, asked.scale)
    stored = {
        "version": hm.__version__,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commands": ["hardmax verify --json", "hardmax reproduce --json", "benchmarks/ledger_results.py"],
        "checks": {**before["checks"], **checks},
        "figures": {**before["figures"], **figures},
        "facts": {**before["facts"], **facts_of(asked.data)},
    }
    RESULTS.write_text(json.dumps(stored, indent=0, sort_keys=True) + "\n", encoding="utf-8")
    print(
        f"{len(stored['checks'])} statements, {len(stored['figures'])} figures, {len(stored['facts'])} facts"
    )


if __name__ == "__main__":
    main()
