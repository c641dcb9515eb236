"""The command line: each command with --json, its fields, and the exit codes."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from . import formulas as f
from . import names as n

ROOT = Path(__file__).parents[2]
THREE, SVOP = ROOT / "examples" / "three-inputs.json", ROOT / "examples" / "svop.txt"


def told(*arguments, code=0, schema=None):
    """Run a command with --json and return the object it printed."""
    found, out = n.command(*arguments, "--json")
    assert found == code, out
    answer = json.loads(out)
    assert answer["schema"].startswith("hardmax.")
    assert answer["schema"].split("/")[0] == f"hardmax.{schema or arguments[0]}"
    return answer


def test_solve_and_certify(tmp_path):
    answer = told("solve", THREE, "--flow", "--certificates", tmp_path)
    assert answer["feasible"] == 11  # of 64 ways to pick a token per input
    assert [each["selection"] for each in answer["selections"]] == [[1, 1, 0], [1, 3, 0], [2, 2, 3]]
    problem = n.load_problem(THREE)
    keys = problem.keys.reshape(3, 4, 2)
    for each in answer["selections"]:
        margin = (f.rows(keys, each["selection"]) @ each["direction"]).min()
        assert margin == pytest.approx(1 / each["norm"], rel=1e-9)
        assert each["margin_interval"][0] <= margin * (1 + 1e-12)
    assert answer["flow"]["selection"] == [2, 2, 3]
    assert answer["global"][0]["selection"] == list(n.best_tokens(problem))
    proofs = sorted(tmp_path.glob("*.json"))
    assert len(proofs) == 3
    assert told("certify", proofs[0])["valid"] is True
    forged = json.loads(proofs[0].read_text())
    forged["p"] = [0 for _ in forged["p"]]
    proofs[0].write_text(json.dumps(forged))
    assert told("certify", proofs[0], code=1)["violations"]


def test_solve_with_a_budget_and_in_another_norm():
    assert told("solve", THREE, "--limit", 2, code=3)["feasible"] is None
    answer = told("solve", THREE, "--norm", "linf")
    assert answer["norm_name"] == "linf"
    best = n.max_margin(n.load_problem(THREE), answer["selections"][0]["selection"], norm="linf")
    low, high = answer["selections"][0]["margin_interval"]
    assert low <= best.margin * (1 + 1e-12)
    assert best.margin <= high * (1 + 1e-12)


def test_verify_and_reproduce(tmp_path):
    checks = told("verify", "B-ASM-B")["checks"]
    assert [(each["instance"], each["verdict"], each["expected"]) for each in checks] == [
        ("B-FIG-1a", "holds", "holds"),
        ("B-FIG-1b", "fails", "fails"),
    ]
    figures = told("reproduce", "B-FIG-1a", "--out", tmp_path)["figures"]
    assert [each["id"] for each in figures] == ["B-FIG-1a"]
    assert all(claim["holds"] for claim in figures[0]["claims"])


def test_sweep(tmp_path):
    (tmp_path / "own.py").write_text("def parity(parameters, seed):\n    return {'odd': seed % 2 == 1}\n")
    plan = 'function = "own.py:parity"\ntrials = 6\nseed = 3\nworkers = 1\n[grid]\nbias = [1, 2]\n'
    (tmp_path / "mine.toml").write_text(plan)
    answer = told("sweep", tmp_path / "mine.toml", "--csv", tmp_path / "rows.csv")
    assert (answer["done"], answer["failed"], answer["remaining"], answer["seed"]) == (12, 0, 0, 3)
    rows = [line.split(",") for line in (tmp_path / "rows.csv").read_text().split()]
    seed, odd = rows[0].index("seed"), rows[0].index("odd")
    assert all((int(row[seed]) % 2 == 1) == (row[odd].lower() in ("true", "1")) for row in rows[1:])


def test_hunt():
    answer = told("hunt", "margin <= 3", "--tries", 5, "--workers", 1, code=1)
    assert answer["verdict"].startswith("refuted")
    assert told("hunt", "margin >= 0", "--tries", 2, "--workers", 1)["seed"] == 0


def test_next_tokens(tmp_path):
    answer = told("ntp", "check", SVOP, schema="ntp-check")
    assert answer["realizable"] is True
    assert answer["collocation"] == {"S": "V", "V": "O", "O": "P", "P": "S"}
    (tmp_path / "no.txt").write_text("A B A\nB C\nC A\n")
    assert (
        told("ntp", "check", tmp_path / "no.txt", code=1, schema="ntp-check")["violations"][0]["kind"]
        == "unreachable"
    )
    model = tmp_path / "model.npz"
    answer = told("ntp", "train", SVOP, "--out", model, schema="ntp-train")
    assert (answer["steps"], answer["misalignment_ov"]) == (900, 0)
    assert answer["norm_ov"] == pytest.approx(900 * 0.2 / 2)  # 0.2/sqrt(V) a step
    answer = told("ntp", "predict", model, "O S P", schema="ntp-predict")
    assert (answer["next"][0]["token"], answer["rule"]) == ("P", "unique")
    drawn = told("ntp", "generate", "--vocabulary", 5, "--out", tmp_path / "drawn.txt", schema="ntp-generate")
    assert drawn["seed"] == 0
    assert told("ntp", "check", tmp_path / "drawn.txt", schema="ntp-check")["realizable"] is True


def test_texts(tmp_path):
    (tmp_path / "notes.csv").write_text("text,label\n" + "a good film,1\na bad film,0\n" * 20)
    model = tmp_path / "model.npz"
    answer = told("text", "train", tmp_path / "notes.csv", "--out", model, schema="text-train")
    assert answer["held_out"]["accuracy"] == 1.0
    answer = told("text", "explain", model, "so good", schema="text-explain")
    assert sum(each["contribution"] for each in answer["tokens"]) == pytest.approx(answer["score"])
    answer = told("text", "important", model, "--limit", 1, schema="text-important")
    assert {each["token"] for each in answer["tokens"]} == {"good", "bad"}


def test_doctor():
    answer = told("doctor")
    assert {"python", "hardmax"} <= {each["name"] for each in answer["checks"]}
    assert all(each["ok"] for each in answer["checks"])


@pytest.mark.parametrize(
    "arguments",
    [
        ["solve", "no-such-file.json"],
        ["verify", "B-THM-99"],
        ["ntp", "predict", "no-such-model.npz", "a"],
        ["solve", THREE, "--norm", "l0.5"],
        ["sweep", "no-such-file.toml"],
        ["probe", "no-such-model"],
    ],
)
def test_mistakes_exit_with_2(arguments):
    answer = told(*arguments, code=2, schema="error")
    assert "Traceback" not in json.dumps(answer)


@pytest.mark.extra
def test_play_serves_until_it_is_interrupted():
    pytest.importorskip("starlette")
    words = [sys.executable, "-m", "hardmax", "play", str(THREE), "--no-browser", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        answer = json.loads(running.stdout.readline())
        assert answer["schema"] == "hardmax.play/1"
        assert answer["address"].startswith("http://127.0.0.1:")
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 130


def test_a_command_of_its_own_process():
    done = subprocess.run(
        [sys.executable, "-m", "hardmax", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("hardmax 0.")
    done = subprocess.run(
        [sys.executable, "-m", "hardmax", "solve", str(THREE), "--json", "--quiet"],
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    assert json.loads(done.stdout)["feasible"] == 11
