"""Seven walks, traced: data visits files in the order of the architecture page, and no more than in 0.2."""

import json
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "project" / "architecture.md").read_text(encoding="utf-8")
SECTION = PAGE.split("## Six walks\n")[1].split("\n## ")[0]
WALKS = {
    part.split("\n")[0]: re.findall(r"^\d+\. `(\S+)`", part, re.MULTILINE)
    for part in SECTION.split("\n### ")[1:]
}

# Files outside _lib that a walk calls, and returns to a package already left. In 0.2 they were (31, 9),
# (28, 10), (29, 7), (23, 4), (51, 12) and (62, 17). There, sentences and texts had separate training loops.
LIMITS = {
    "A problem is solved": (24, 7),
    "Adam trains a problem": (13, 2),
    "Flow, and the margin it tends to": (19, 3),
    "Sentences are learned": (30, 6),
    "Texts are learned": (18, 3),
    "A figure is made": (40, 8),
    "A counterexample is hunted": (42, 7),
}

# Runs every walk twice, since the first time imports, and prints which file was called first, second, ...
TRACE = """
import contextlib, io, json, os, sys
import hardmax as hm
from hardmax._lib.kernels import Kernel
from hardmax.app.cli import main

Kernel._is_little = lambda self, arguments: False  # whatever numba's cache holds, kernels are compiled
folder = sys.argv[1]
os.environ["HARDMAX_CACHE"] = folder

def command(*words):
    def run():
        sys.argv = ["hardmax", *words]
        with contextlib.suppress(SystemExit):
            main()
    return run

def adam():
    hm.train(hm.data.sphere(n=4, T=6, d=10, rng=0), hm.optim.Adam(0.1), steps=50)

def flow():
    path = hm.flow(hm.data.sphere(n=4, T=6, d=10, rng=0), until_norm=1e4)
    path.cosine_distance(hm.max_margin(path.problem, path.selection))

def texts(rows=[]):
    rows += [f"a good film {i} great,1\\na bad film {i} awful,0" for i in range(20)]  # not in the cache
    with open(f"{folder}/reviews.csv", "w") as file:
        file.write("text,label\\n" + "\\n".join(rows))
    made = hm.embeddings.text_corpus(f"{folder}/reviews.csv", min_count=1, workers=1)
    run = hm.train(made.corpus.model(d=8), hm.optim.AdamW(0.05), epochs=2, batch=8, rng=0)
    run.top(2)

walks = {
    "A problem is solved": command("solve", "examples/three-inputs.json"),
    "Adam trains a problem": adam,
    "Flow, and the margin it tends to": flow,
    "Sentences are learned": command("ntp", "train", "examples/svop.txt", "--out", f"{folder}/m.npz"),
    "Texts are learned": texts,
    "A figure is made": command("reproduce", "B-FIG-1a", "--out", f"{folder}/figures"),
    "A counterexample is hunted": command(
        "hunt", "B-THM-1", "--reading", "paper", "--tries", "5", "--workers", "1"
    ),
}
root = os.path.dirname(hm.__file__) + os.sep
found = {}
for title, walk in walks.items():
    walk()
    order = found[title] = []

    def note(frame, event, argument, order=order):  # of calls alone, as it returns None
        code = frame.f_code
        if code.co_filename.startswith(root) and code.co_flags & 1:
            name = code.co_filename[len(root):].replace(os.sep, "/")
            if name not in order:
                order.append(name)

    sys.settrace(note)
    walk()
    sys.settrace(None)
print("TRACE" + json.dumps(found))
"""


@pytest.fixture(scope="module")
def visited(tmp_path_factory):
    folder = tmp_path_factory.mktemp("walks")
    run = subprocess.run(
        [sys.executable, "-c", TRACE, str(folder)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.rsplit("TRACE", 1)[1])


def returns(files):
    """How often a list of files comes back to a package that it has left."""
    packages = [file.split("/")[0] for file in files]
    entered = [b for a, b in pairwise(["", *packages]) if a != b]
    return len(entered) - len(set(entered))


def test_every_walk_is_told():
    assert {*WALKS} <= {*LIMITS}
    assert all(len(files) >= 7 for files in WALKS.values())


@pytest.mark.parametrize("title", WALKS)
def test_data_visits_the_files_in_this_order(title, visited):
    order = visited[title]
    assert [file for file in WALKS[title] if file not in order] == []
    assert sorted(WALKS[title], key=order.index) == WALKS[title]


@pytest.mark.parametrize("title", LIMITS)
def test_a_walk_gets_no_worse(title, visited):
    files, back = LIMITS[title]
    traced = [file for file in visited[title] if not file.startswith(("_lib/", "__init__"))]
    assert len(traced) <= files
    assert returns(traced) <= back
