"""Every command with --json, on every example that it accepts: one object that obeys its schema."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hardmax.app import cli

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
PROBLEMS = sorted([*EXAMPLES.glob("*.json"), *EXAMPLES.glob("hunts/*.json")])
PLANS = sorted(EXAMPLES.glob("*.toml"))
CONJECTURES = EXAMPLES / "hunts" / "conjectures.py"
TEXTS = [f"a {word} film number {n},{label}" for n in range(12) for word, label in (("good", 1), ("bad", 0))]


@pytest.fixture
def told(capsys, validated, tmp_path, monkeypatch):
    """Run a command with --json: its exit code, and the one object that it printed."""
    monkeypatch.chdir(tmp_path)

    def run(name, *arguments, codes=(0,)):
        code = cli.run([*name.split(), *map(str, arguments), "--json"])
        out, err = capsys.readouterr()
        assert (code in codes, "Traceback" in err) == (True, False), (code, err)
        (line,) = out.splitlines()
        answer = validated(line)
        assert answer["schema"].startswith(f"hardmax.{name.replace(' ', '-')}/")
        return answer

    return run


def test_every_example_is_of_a_known_kind():
    others = {
        "svop.txt",
        "reviews.csv",
        "fetch_models.py",
        "attention_paths.py",
        "first_look.py",
        "phase_diagram.py",
        "hunts",
        "tutorials",
    }
    known = {path.name for path in (*PROBLEMS, *PLANS)} | others
    assert {path.name for path in EXAMPLES.iterdir() if path.name != "__pycache__"} <= known


def test_every_command_is_run_here():
    """A new command needs a test in this file."""
    from hardmax.app.cli.commands import typer_app

    names = {command.callback.__name__ for command in typer_app().registered_commands}
    for group in typer_app().registered_groups:
        names |= {f"{group.name} {c.callback.__name__}" for c in group.typer_instance.registered_commands}
    text = Path(__file__).read_text()
    assert [name for name in sorted(names - {"play"}) if f'told("{name}"' not in text] == []


@pytest.mark.parametrize("file", PROBLEMS, ids=lambda path: path.stem)
def test_solve_and_certify(told, tmp_path, file):
    answer = told("solve", file, "--all", "--flow", "--exact", "--certificates", tmp_path / "proofs")
    assert answer["status"] == "complete"
    proofs = sorted((tmp_path / "proofs").iterdir())
    assert len(proofs) >= len(answer["selections"])
    assert told("certify", proofs[0])["valid"] is True
    for options in (["--critical"], ["--norm", "l1"], ["--norm", "linf", "--all"]):
        told("solve", file, *options, codes=(0, 3))


def test_verify_numbers_of_any_kind(told):
    """D-THM-11 measures fractions."""
    answer = told("verify", "D-THM-11", "B-THM-2", "C-THM-P2")
    assert {each["id"] for each in answer["checks"]} == {"D-THM-11", "B-THM-2", "C-THM-P2"}
    assert all(each["verdict"] == each["expected"] for each in answer["checks"])


def test_verify_without_ids_is_about_all_instances(capsys, monkeypatch):
    """The verdicts themselves are those of `papers/checking/test_instances.py`."""
    from hardmax.papers.checking.instances import Instance, instances

    run = Instance.run

    def interrupted_after_the_first(instance):
        monkeypatch.setattr(Instance, "run", stop)
        return run(instance)

    def stop(instance):
        raise KeyboardInterrupt

    monkeypatch.setattr(Instance, "run", interrupted_after_the_first)
    assert cli.run(["verify"]) == 130
    first, *rest = dict.fromkeys(instance.id for instance in instances())
    assert f"hardmax verify {first} {' '.join(rest)}" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("file", PROBLEMS, ids=lambda path: path.stem)
def test_verify_on_problems(told, file):
    ids = ["A-DEF-16", "B-ASM-B", "B-EQ-73", "B-NEW-4", "B-THM-1", "B-THM-3", "D-THM-4", "D-THM-5"]
    answer = told("verify", *ids, "--on", file, codes=(0, 1, 3))
    assert [each["id"] for each in answer["checks"]] == ids


def test_verify_on_sentences(told):
    answer = told("verify", "C-LEM-1", "C-THM-P2", "--on", EXAMPLES / "svop.txt")
    assert [each["verdict"] for each in answer["checks"]] == ["holds", "holds"]


def test_reproduce(told, tmp_path):
    answer = told("reproduce", "B-FIG-1a", "--out", tmp_path / "figures")
    assert [each["id"] for each in answer["figures"]] == ["B-FIG-1a"]


@pytest.mark.slow
@pytest.mark.parametrize("file", PLANS, ids=lambda path: path.stem)
def test_sweep(told, tmp_path, file):
    """All cells with one trial each, a few steps, in one process."""
    plan = tmp_path / file.name
    text = file.read_text().replace("trials = 100", "trials = 1").replace("trials = 200", "trials = 1")
    plan.write_text("workers = 1\n" + text.replace("steps = 5000", "steps = 50"))
    answer = told("sweep", plan)
    assert answer["remaining"] == answer["failed"] == 0
    assert answer["done"] > 3


def test_ntp(told, tmp_path):
    svop, model = EXAMPLES / "svop.txt", tmp_path / "model.npz"
    assert told("ntp check", svop)["realizable"] is True
    told("ntp train", svop, "--out", model, "--steps", 20)
    sentence = svop.read_text().split("\n")[0].split()[:-1]
    assert told("ntp predict", model, " ".join(sentence))["next"]
    assert told("ntp generate", "--vocabulary", 6)["seed"] == 0


def test_text(told, tmp_path):
    pytest.importorskip("sklearn", reason="the classifier needs the extra text")
    table, model = tmp_path / "texts.csv", tmp_path / "model.npz"
    table.write_text("\n".join(["text,label", *TEXTS]) + "\n")
    assert told("text train", table, "--out", model, "--held-out", 0.2)["classes"]
    assert told("text explain", model, "a good film")["tokens"]
    assert told("text important", model)["tokens"]


HUNTS = EXAMPLES / "hunts"


@pytest.mark.parametrize(
    "claim, options, codes",
    [
        ("B-THM-1", ["--reading", "paper"], (1,)),
        ("margin <= 3", ["--loss", "exponential"], (1,)),
        ("B-THM-L10", [], (0,)),
        (f"{CONJECTURES}:head_start", [], (0, 1, 3)),
    ],
)
def test_hunt(told, claim, options, codes):
    answer = told("hunt", claim, *options, "--tries", 1, "--workers", 0, codes=codes)
    assert (answer["counterexample"] is None) == answer["verdict"].startswith("nothing")


@pytest.mark.parametrize(
    "name, file, given, code",
    [
        ("head_start", "head-start", ["start=[-1,1]"], 1),
        ("nearly_all", "nearly-all", ["start=[-5.5,5.5]"], 1),
        ("cone_from_R_bar", "cone", ["start=[0,1]", "selection=[0]"], 1),
        ("without_general_position", "every-start", [], 3),
    ],
)
def test_hunt_on_a_file(told, name, file, given, code):
    options = [word for each in given for word in ("--given", each)]
    answer = told("hunt", f"{CONJECTURES}:{name}", "--on", HUNTS / f"{file}.json", *options, codes=(code,))
    assert answer["instances"] == 1


def test_doctor(told):
    assert {each["name"] for each in told("doctor", codes=(0, 1))["checks"]}


@pytest.mark.extra
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_probe(told, tmp_path):
    transformers = pytest.importorskip("transformers", reason="real architectures need it: make test-extras")
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({"the": 0, "cat": 1, "sat": 2, "[UNK]": 3}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]")
    tokenizer.save_pretrained(tmp_path / "model")
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    transformers.BertModel(transformers.BertConfig(**sizes, vocab_size=4)).save_pretrained(tmp_path / "model")
    (tmp_path / "texts.txt").write_text("the cat sat\nsat the cat\ncat sat the the\n")
    options = ["--texts", tmp_path / "texts.txt", "--null", 3, "--queries", 4, "--workers", 1]
    assert len(told("probe", tmp_path / "model", *options)["heads"]) == 2


@pytest.mark.extra
def test_audit(told):
    pytest.importorskip("torch", reason="the audit needs PyTorch: make test-extras")
    paths = EXAMPLES / "attention_paths.py"
    answer = told("audit", f"{paths}:math", "--dtype", "float32", "--level", "exact", codes=(1,))
    assert {case["regime"] for case in answer["cases"] if case["verdict"] == "fails"} >= {"gap 40", "sink 32"}
    answer = told("audit", "hardmax.torch:scaled_dot_product_attention", "--dtype", "float64", "--seed", 3)
    assert answer["seed"] == 3
    assert {case["verdict"] for case in answer["cases"]} == {"passes"}


@pytest.mark.extra
@pytest.mark.parametrize("file", ["three-inputs.json", "svop.txt"])
def test_play(validated, file):
    pytest.importorskip("starlette", reason="the playground needs the extra play")
    arguments = [sys.executable, "-m", "hardmax", "play", str(EXAMPLES / file), "--json", "--no-browser"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(arguments, **pipes) as server:
        line = server.stdout.readline()
        server.send_signal(signal.SIGINT)
        rest, err = server.communicate(timeout=60)
    assert (server.returncode, rest) == (130, ""), err
    assert validated(line)["schema"].startswith("hardmax.play/")
