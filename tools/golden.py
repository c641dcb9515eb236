"""The golden pack: what one version answers to many questions, stored, or asked of two trees on one machine.

    python tools/golden.py OLD NEW [--parts train,flows] [--rule bit|stage2]   compare two source trees
    python tools/golden.py OLD NEW --fuzz 600 [--seed N]      ask both the same random questions
    python tools/golden.py --store tests/golden-0.2.json.gz   store a sample that `make test` compares

Questions are drawn with numpy alone. Each tree runs in its own process with the adapter of its version, a
file in `golden_adapters`. Exit code 1 means that some quantity differs.
"""

import argparse
import gzip
import hashlib
import importlib.util
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
PARTS = ("train", "models", "flows", "margins", "solve", "commands", "statements", "figures")

# How quantities are compared. A number is the largest difference, relative to the largest entry of a list for
# "point", else to each number, or to one if that is less. None leaves a quantity out, "bit" allows no
# difference, "overlap" is of intervals, of which the new one may be twice as wide.
RULES = {
    "bit": dict.fromkeys(
        ("point", "chaotic", "gap", "direction", "log_time", "interval", "float", "slack", "json"), "bit"
    ),
    "stage2": {
        "point": 1e-12,
        "chaotic": None,
        "gap": 0.02,
        "direction": 1e-8,
        "log_time": 1e-6,
        "interval": "overlap",
        "float": 1e-9,
        "slack": 1e-6,
        "json": 1e-6,
    },
    # What another processor changes. A flow that comes to rest ends where the gradient falls below a
    # threshold, a time that rounding moves by 3e-5; two layers at this rate amplify rounding to 4e-8.
    "stored": {
        "point": 1e-9,
        "chaotic": None,
        "gap": 0.02,
        "direction": 1e-8,
        "log_time": 1e-4,
        "interval": 1e-9,
        "float": 1e-6,
        "slack": None,  # some are logarithms of rounding errors
        "json": 1e-4,
    },
}
CHAOTIC = ("sign", "coordinate", "signum", "rmsprop", "pure adam", "spectral", "muon")
OPTIMIZERS = {
    "gd": {"name": "gd", "lr": 0.5},
    "gd in l3": {"name": "gd", "lr": 0.2, "norm": "l3"},
    "normalized": {"name": "normalized", "lr": 0.05},
    "normalized, eps": {"name": "normalized", "lr": 0.05, "eps": 0.01},
    "normalized in l1.5": {"name": "normalized", "lr": 0.02, "norm": "l1.5", "decay": 0.5},
    "sign": {"name": "sign", "lr": 0.02},
    "coordinate": {"name": "coordinate", "lr": 0.02},
    "mirror": {"name": "mirror", "lr": 0.05, "power": 3.0},
    "momentum": {"name": "momentum", "lr": 0.02},
    "signum": {"name": "signum", "lr": 0.01},
    "adam": {"name": "adam", "lr": 0.02, "eps": 1e-3},
    "pure adam": {"name": "adam", "lr": 0.02, "eps": 0.0, "betas": (0.9, 0.99)},
    "adamw": {"name": "adamw", "lr": 0.02, "eps": 1e-3, "weight_decay": 0.1},
    "rmsprop": {"name": "rmsprop", "lr": 0.02},
    "sgd": {"name": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 0.01},
}
LOSSES = ("logistic", "exponential", "correlation")
NORMS = ("l2", "l2", "l2", "l2", "l1", "l1", "linf", "linf", "l1.5", "l3")
SENTENCES = (
    ["S V O P", "V O P", "O P P", "P S V"],
    ["a b b", "b a"],
    ["0 2 1 3 3", "1 3 3", "2 1 3 3", "3 0 2 1 3"],
    ["b c a", "a b", "c a b b", "a b c c"],
)
NON_SEPARABLE = {  # part D's "cycle"
    "keys": [
        [[1, 0, 0], [0, 1, 0]],
        [[1, 0, 0], [0, 1, 0]],
        [[1, 0, 0], [0, 1, 0]],
        [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    ],
    "scores": [[1, 0], [1, 0], [0, 1], [1, 0, 0]],
    "loss": "log",
}


def draw_problem(rng, n=None, T=None, d=None):
    """Draw keys and scores: normal numbers, or halves of whole numbers, where ties occur."""
    n, T, d = n or int(rng.integers(1, 5)), T or int(rng.integers(2, 6)), d or int(rng.integers(2, 7))
    keys, scores = rng.normal(size=(n, T, d)), rng.normal(size=(n, T))
    if rng.random() < 0.2:
        keys, scores = np.round(2 * keys) / 2, np.round(scores)
    return {"keys": keys.tolist(), "scores": scores.tolist(), "loss": LOSSES[int(rng.integers(3))]}


def train_questions(rng, count=200):
    for _ in range(count):
        data = draw_problem(rng)
        d = len(data["keys"][0][0])
        start = (0.3 * rng.normal(size=d)).tolist()
        for title, optimizer in OPTIMIZERS.items():
            how = {
                "kind": "train",
                "model": "p",
                "optimizer": optimizer,
                "start": start,
                "chaotic": title in CHAOTIC,
            }
            yield data | how | {"steps": 200, "record": [5, 60, 200]}
            yield data | how | {"steps": 15, "record": [5, 15], "plain": True}


def models_questions(rng, count=12):
    for k in range(count):
        data = draw_problem(rng, d=4)
        n = len(data["keys"])
        base = {"kind": "train", "steps": 120, "record": [5, 60, 120], "chaotic": False}
        labels, readout = rng.choice([-1, 1], size=n).tolist(), rng.normal(size=4).tolist()
        yield (
            data
            | base
            | {"model": "joint", "labels": labels, "readout": readout, "optimizer": OPTIMIZERS["normalized"]}
        )
        yield (
            data
            | base
            | {"model": "joint", "labels": labels, "readout": readout, "optimizer": OPTIMIZERS["adam"]}
        )
        made = {
            "model": "matrix",
            "labels": labels,
            "readout": readout,
            "prompt": rng.normal(size=4).tolist(),
        }
        yield data | base | made | {"optimizer": OPTIMIZERS["gd"]}
        queries = {"queries": rng.normal(size=(n, 3)).tolist()}
        for name in ("normalized", "spectral", "muon"):
            optimizer = OPTIMIZERS.get(name, {"name": name, "lr": 0.02})
            yield (
                data
                | base
                | queries
                | {"model": "p", "optimizer": optimizer, "chaotic": name != "normalized"}
            )
        start = rng.normal(size=(4, 2)).tolist(), rng.normal(size=(3, 2)).tolist()
        yield (
            data
            | base
            | queries
            | {"model": "factors", "rank": 2, "start": start, "optimizer": OPTIMIZERS["gd"]}
        )
        tokens = rng.integers(0, 6, size=(6, 4)).tolist()
        vectors = [rng.normal(size=(6, 5)).tolist(), rng.normal(size=5).tolist(), rng.normal(size=5).tolist()]
        corpus = {
            "kind": "embeddings",
            "sequences": [*tokens, [*range(6)]],
            "labels": [1, -1, 1, -1, 1, -1, 1],
        }
        corpus |= {
            "start": vectors,
            "lr": 0.2,
            "steps": 40,
            "blocks": [["E", "p"], ["p"], ["E", "p", "v"]][k % 3],
        }
        for way in ("vectors", "gram", "two layers", "mini-batches"):
            yield corpus | {"way": way, "optimizer": OPTIMIZERS["adamw"]}
        if k < 3:
            blocks = ["E", "p", "v"][: 2 + (k == 2)]
            yield corpus | {"way": "flow", "blocks": blocks}
    for sentences in SENTENCES:
        for way, steps in (("stages", 300), ("flow", 0), ("joint", 60), ("unmerged", 60)):
            yield {"kind": "next_tokens", "sentences": sentences, "way": way, "steps": steps, "lr": 0.05}
    base = {"kind": "train", "steps": 120, "record": [5, 60, 120], "chaotic": False}
    yield NON_SEPARABLE | base | {"model": "remainder", "optimizer": OPTIMIZERS["normalized"]}
    for name in ("normalized", "adam", "sgd"):
        problems = [draw_problem(rng, 4, 6, 10) | {"loss": "logistic"} for _ in range(24)]
        yield {"kind": "train_list", "problems": problems, "optimizer": OPTIMIZERS[name], "steps": 100}
    words = ["good", "bad", "film", "plot", "a", "the", "one", "so", "dull", "great"]
    texts = [" ".join(rng.choice(words, size=6)) for _ in range(60)]
    labels = [int("good" in text or "great" in text) for text in texts]
    yield {
        "kind": "classifier",
        "texts": texts,
        "labels": labels,
        "asked": [*texts[:10], "good", "dull film"],
    }


def flows_questions(rng, count=200):
    for k in range(count):
        question = {"kind": "flow", **draw_problem(rng, n=int(rng.integers(1, 4)), T=int(rng.integers(2, 5)))}
        question |= {"until_norm": 1e4}
        if k % 10 == 1:
            question |= {"clock": "arc length", "until_length": 200.0}
            del question["until_norm"]
        elif k % 20 == 2:
            question |= {"norm": "l3", "mirror": k % 40 == 2, "until_norm": 1e3}
        elif k % 50 == 3:
            question |= {**NON_SEPARABLE, "remainder": True, "start": rng.normal(size=3).tolist()}
        elif k % 3 == 0:
            question["start"] = rng.normal(size=len(question["keys"][0][0])).tolist()
        yield question


def margins_questions(rng, count=5000):
    for k in range(count):
        norm = NORMS[k % len(NORMS)]
        if k % 100 == 0:
            problems = [draw_problem(rng, 4, 6, 10) for _ in range(20)]
            for each in problems:
                each["selection"] = [int(np.argmax(s)) for s in each["scores"]]
            yield {"kind": "margin_list", "problems": problems, "norm": ("l2", "linf")[k % 200 == 0]}
        data = draw_problem(rng)
        if k % 50 == 7:
            data = draw_problem(rng, n=2, T=3, d=3) | {"queries": rng.normal(size=(2, 2)).tolist()}
            norm = ("nuclear", "spectral")[k % 100 == 7]
        selection = [int(rng.integers(len(s))) for s in data["scores"]]
        if rng.random() < 0.5:
            selection = [int(np.argmax(s)) for s in data["scores"]]
        question = data | {"kind": "margin", "selection": selection, "norm": norm}
        yield question | {"exact": k % 8 == 1 and norm == "l2", "certify": k % 20 == 5}


def solve_questions(rng, count=60):
    for _ in range(count):
        yield {
            "kind": "solve",
            **draw_problem(rng, n=int(rng.integers(1, 4)), T=int(rng.integers(2, 5)), d=2),
        }


def commands_questions(rng):
    def ask(*words, files=None, before=()):
        return {"kind": "command", "words": [*words], "files": files or {}, "before": [*before]}

    for name in ("three-inputs", "opposed", "saddle", "queries"):
        file = f"examples/{name}.json"
        for options in (
            [],
            ["--all", "--exact"],
            ["--flow"],
            ["--norm", "linf"],
            ["--norm", "l1.5"],
            ["--limit", "1"],
        ):
            yield ask("solve", file, *options)
    yield ask("solve", "examples/three-inputs.json", "--critical")
    save = ["solve", "examples/three-inputs.json", "--certificates", "DIR"]
    for k in range(3):
        yield ask("certify", f"DIR/selection-{k}.json", before=[save])
    for name in ("cone", "every-start", "head-start", "nearly-all", "parting"):
        yield ask("solve", f"examples/hunts/{name}.json")
    yield ask("ntp", "check", "examples/svop.txt")
    yield ask("ntp", "check", "DIR/no.txt", files={"no.txt": "A B A\nB C\nC A\n"})
    yield ask("ntp", "train", "examples/svop.txt", "--out", "DIR/m.npz")
    learned = [["ntp", "train", "examples/svop.txt", "--out", "DIR/m.npz"]]
    for sentence in ("O S P", "S V P", "S P"):
        yield ask("ntp", "predict", "DIR/m.npz", sentence, before=learned)
    yield ask("ntp", "generate", "--vocabulary", "30", "--seed", "1")
    plan = 'experiment = "sphere"\ntrials = 10\nworkers = 1\n[grid]\nd = [2, 10]\n'
    yield ask("sweep", "DIR/mine.toml", files={"mine.toml": plan})
    yield ask("hunt", "margin <= 3", "--tries", "3", "--workers", "1")
    yield ask("hunt", "B-THM-1", "--reading", "paper", "--tries", "3", "--workers", "1")
    notes = {"notes.csv": "text,label\n" + "a good film,1\na bad film,0\nso so good,1\nnot good bad,0\n" * 10}
    learn = ["text", "train", "DIR/notes.csv", "--out", "DIR/t.npz"]
    yield ask(*learn, files=notes)
    yield ask("text", "explain", "DIR/t.npz", "so bad, not good", files=notes, before=[learn])
    yield ask("text", "important", "DIR/t.npz", files=notes, before=[learn])
    yield ask("verify", "B-ASM-B", "B-THM-2")
    yield ask("verify", "B-THM-2", "--on", "examples/three-inputs.json")
    yield ask("reproduce", "B-FIG-1a", "--out", "DIR")
    yield ask("solve", "no-such-file.json")


def questions(part, adapter, seed=2024):
    """Return the questions of a part by key; statements and figures are those that the tree lists."""
    if part == "statements":
        listed = adapter.statement_instances()
        return {f"statements/{id}/{k}": {"kind": "statement", "id": id, "number": k} for id, k in listed}
    if part == "figures":
        return {f"figures/{id}": {"kind": "figure", "id": id} for id in adapter.figures()}
    drawn = globals()[f"{part}_questions"](np.random.default_rng([seed, PARTS.index(part)]))
    return {f"{part}/{k}": question for k, question in enumerate(drawn)}


def digest(asked):
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def plain(x):
    """Return a quantity as JSON has it."""
    if isinstance(x, np.ndarray | np.generic):
        x = x.tolist()
    if isinstance(x, dict):
        return {str(name): plain(each) for name, each in x.items()}
    if isinstance(x, list | tuple):
        return [plain(each) for each in x]
    if isinstance(x, float):
        return x if math.isfinite(x) else str(x)
    return x if x is None or isinstance(x, bool | int | str) else str(x)


def adapter_for(version):
    """Load the adapter of a version: the newest that is not newer than it."""
    wanted = tuple(map(int, version.split(".")[:2]))
    known = {
        tuple(map(int, found.groups())): file
        for file in (HERE / "golden_adapters").glob("v*.py")
        if (found := re.fullmatch(r"v(\d+)_(\d+)", file.stem))
    }
    file = known[max(each for each in known if each <= wanted)]
    spec = importlib.util.spec_from_file_location(f"golden_adapter_{file.stem}", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def current_adapter():
    import hardmax

    return adapter_for(hardmax.__version__)


def answers(asked, adapter, costs=None):
    import warnings

    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for key, question in asked.items():
            before = time.process_time()
            found[key] = plain(adapter.answer(question))
            if costs is not None:
                costs[key] = time.process_time() - before
    return found


# Comparison


def leaves(old, new):
    """Yield pairs of numbers or other values; what only the new answer has is left out, lists must match."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in old:
            yield from leaves(old[name], new.get(name, "missing"))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for a, b in zip(old, new, strict=True):
            yield from leaves(a, b)
    else:
        yield old, new


def is_number(x):
    return isinstance(x, int | float) and not isinstance(x, bool)


def difference(old, new, rule, by_list=False):
    """Return how far apart two values are, and whether the rule allows it."""
    if rule is None:
        return 0.0, True
    pairs = list(leaves(old, new))
    numbers = [(a, b) for a, b in pairs if is_number(a) and is_number(b) and isinstance(a + b, float)]
    others = [(a, b) for a, b in pairs if not (is_number(a) and is_number(b) and isinstance(a + b, float))]
    if any(a != b or type(a) is not type(b) for a, b in others):
        return math.inf, False
    size = max((max(abs(a), abs(b)) for a, b in numbers), default=0.0)
    if rule in ("bit", "exact"):
        worst = max((abs(a - b) / size for a, b in numbers if a != b), default=0.0)
        return worst, worst == 0
    if rule == "overlap":
        if not numbers:
            return 0.0, True
        apart = max(old[0] - new[1], new[0] - old[1], 0.0)
        wider = (new[1] - new[0]) > 2 * (old[1] - old[0]) + 1e-15 * abs(old[1])
        return apart / max(abs(old[1]), 1e-300), apart == 0 and not wider
    worst = 0.0
    for a, b in numbers:
        scale = size if by_list else max(abs(a), abs(b), 1.0)
        worst = max(worst, abs(a - b) / scale if a != b else 0.0)
    return worst, worst <= rule


def compare(old, new, rules):
    """Return a table (part, quantity) -> [count, worst, failed keys], and print nothing."""
    table = {}
    for key, answer in old.items():
        given = new.get(key, {"refused": "not asked"})
        for name, x in answer.items():
            if name == "note":
                continue
            kind = name.split(".")[0]
            rule = rules.get(kind, "exact")
            worst, good = difference(x, given.get(name, "missing"), rule, by_list=kind == "point")
            row = table.setdefault((key.split("/")[0], kind, rule), [0, 0.0, []])
            row[0] += 1
            row[1] = max(row[1], worst)
            if not good:
                row[2].append(f"{key} {name}")
    return table


def show(table):
    print(f"{'part':12} {'quantity':14} {'rule':8} {'count':>7} {'worst':>9} {'differ':>7}")
    for (part, kind, rule), (count, worst, failed) in sorted(table.items(), key=str):
        told = "-" if rule is None else str(rule)
        print(f"{part:12} {kind:14} {told:8} {count:7} {worst:9.1e} {len(failed):7}", flush=True)
        for key in failed[:5]:
            print(f"    {key}")
    return 1 if any(failed for _, _, failed in table.values()) else 0


# Two trees


class Tree:
    """A source tree that answers in its own process."""

    def __init__(self, root):
        self.root = Path(root).resolve()
        paths = [str(self.root / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OPENBLAS_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), "--serve", str(self.root)],
            cwd=self.root,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, part, seed, sample):
        self.process.stdin.write(json.dumps([part, seed, sample]) + "\n")
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.root}: its process ended with {self.process.wait()}")
        file = Path(json.loads(line))
        found = json.loads(file.read_text())
        file.unlink()
        return found

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def serve(root):
    """Answer one line (part, seed, sample) after another; answers go through a file."""
    import hardmax

    if not Path(hardmax.__file__).resolve().is_relative_to(Path(root).resolve()):
        raise SystemExit(f"hardmax was imported from {hardmax.__file__}, not from {root}")
    adapter, out = current_adapter(), os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a question prints does not mix with answers
    for line in sys.stdin:
        part, seed, sample = json.loads(line)
        asked = questions(part, adapter, seed)
        if sample:
            rng = np.random.default_rng(seed)
            kept = sorted(rng.choice(len(asked), size=min(sample, len(asked)), replace=False))
            asked = {key: asked[key] for key in np.array([*asked])[kept].tolist()}
        made = answers(asked, adapter) | {"digest": {"digest": digest(asked)}}
        with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as file:
            json.dump(made, file)
        print(json.dumps(file.name), file=out, flush=True)


def both(trees, part, seed=2024, sample=None):
    for tree in trees:
        tree.ask(part, seed, sample)
    return [tree.answer() for tree in trees]


def compare_trees(arguments):
    trees, rules, table = [Tree(arguments.old), Tree(arguments.new)], RULES[arguments.rule], {}
    began = time.monotonic()
    if arguments.fuzz:
        seed = arguments.seed if arguments.seed is not None else int.from_bytes(os.urandom(4), "big")
        print(f"seed {seed}", flush=True)
        asked = 0
        sizes = {"train": 150, "models": 10, "flows": 8, "margins": 150, "solve": 10}
        while time.monotonic() - began < arguments.fuzz:
            part = [*sizes][asked % len(sizes)]
            join(table, compare(*both(trees, part, seed + asked, sizes[part]), rules))
            asked += 1
        print(f"{asked} rounds in {time.monotonic() - began:.0f} s")
    else:
        for part in arguments.parts.split(","):
            join(table, compare(*both(trees, part), rules))
            print(f"{part}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    for tree in trees:
        tree.close()
    return show(table)


def join(table, other):
    for name, (count, worst, failed) in other.items():
        row = table.setdefault(name, [0, 0.0, []])
        row[0], row[1], row[2] = row[0] + count, max(row[1], worst), row[2] + failed


# The stored pack


BUDGET = {
    "train": 6.0,
    "models": 6.0,
    "flows": 6.0,
    "margins": 5.0,
    "solve": 1.0,
    "commands": 7.0,
    "statements": 6.0,
}


def rounded(x):
    """Thirteen digits are stored: the comparison is to nine."""
    if isinstance(x, dict):
        return {name: rounded(each) for name, each in x.items()}
    if isinstance(x, list):
        return [rounded(each) for each in x]
    return float(f"{x:.13g}") if isinstance(x, float) else x


def store(file):
    """Store answers to a random sample of questions, within a budget of CPU time for each part."""
    adapter, pack = current_adapter(), {"digests": {}, "answers": {}}
    for part, budget in BUDGET.items():
        asked = questions(part, adapter)
        pack["digests"][part] = digest(asked)
        lasting = [
            key for key in asked if "hunt" not in asked[key].get("words", ())
        ]  # a search may be improved
        order = np.random.default_rng(0).permutation(lasting).tolist()
        answers({key: asked[key] for key in order[:20]}, adapter)  # warm
        spent = 0.0
        for key in order:
            costs = {}
            found = answers({key: asked[key]}, adapter, costs)
            if costs[key] <= budget / 10 and spent + costs[key] <= budget:
                spent += costs[key]
                pack["answers"] |= found
            elif spent > 0.97 * budget:
                break
        print(part, f"{spent:.1f} s of CPU time", sum(key.startswith(part + "/") for key in pack["answers"]))
    text = json.dumps(rounded(pack), separators=(",", ":"))
    file.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{file.stat().st_size / 1e6:.2f} MB")
    return 0


def compare_stored(pack, part):
    """Ask this tree the stored questions of a part; return whether they are stored, and the table."""
    adapter = current_adapter()
    asked = questions(part, adapter)
    old = {key: answer for key, answer in pack["answers"].items() if key.startswith(f"{part}/")}
    new = answers({key: asked[key] for key in old if key in asked}, adapter)
    # a tree may list more statements than when the pack was stored
    same = old.keys() <= asked.keys() if part == "statements" else digest(asked) == pack["digests"][part]
    return same, compare(old, new, RULES["stored"])


def read(file):
    return json.loads(gzip.decompress(Path(file).read_bytes()))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", nargs="?", help="a source tree, the reference")
    parser.add_argument("new", nargs="?", help="the tree that is compared with it")
    parser.add_argument("--parts", default=",".join(PARTS), help="which parts, of " + ", ".join(PARTS))
    parser.add_argument(
        "--rule", default="bit", choices=("bit", "stage2"), help="how quantities are compared"
    )
    parser.add_argument("--exact", action="store_true", help="the same as --rule bit")
    parser.add_argument("--fuzz", type=float, metavar="SECONDS", help="ask random questions for this long")
    parser.add_argument("--seed", type=int, help="of the random questions")
    parser.add_argument("--store", type=Path, metavar="FILE", help="store a sample of this tree's answers")
    parser.add_argument("--serve", metavar="TREE", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
        return 0
    if arguments.store:
        return store(arguments.store)
    if arguments.exact:
        arguments.rule = "bit"
    if not (arguments.old and arguments.new):
        parser.error("name two source trees, OLD and NEW, or --store FILE")
    return compare_trees(arguments)


if __name__ == "__main__":
    sys.exit(main())
