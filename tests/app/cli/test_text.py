"""`hardmax text`: what a stranger types, rightly and wrongly."""

import json
import shutil

import pytest

from hardmax.app import cli

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A file of notes of three kinds, and the model of a training on it."""
    folder = tmp_path_factory.mktemp("text")
    rows = ["text,label"]
    for k in range(30):
        rows += [f"they won match {k}!,sport", f"they voted law {k},news", f"it rained in {k} towns,weather"]
    (folder / "notes.csv").write_text("\n".join([*rows, "no label,"]) + "\n")
    return folder


@pytest.fixture
def run(capsys):
    def run(*words):
        code = cli.run([str(word) for word in words])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


def test_train_explain_important(trained, run, validated):
    model = trained / "model.npz"
    code, out, err = run("text", "train", trained / "notes.csv", "--out", model, "--json")
    told = validated(out)
    assert code == 0
    assert (told["texts"], told["left_out"], told["classes"]) == (81, 1, ["news", "sport", "weather"])
    assert told["held_out"]["texts"] == 9
    assert told["held_out"]["accuracy"] == 1.0
    assert told["model"] == str(model)
    assert "1 texts without a label were left out" in err
    assert "held out at random" in err
    code, out, err = run("text", "explain", model, "It rained, and they voted.", "--json")
    told = validated(out)
    assert code == 0
    assert sum(each["contribution"] for each in told["tokens"]) == pytest.approx(told["score"], abs=1e-12)
    assert told["unknown_words"] == 1  # and
    code, out, _ = run(
        "text", "explain", model, "they won", "--label", "news", "--page", trained / "why.html"
    )
    assert code == 0
    assert out.startswith("news: probability 0.0")
    assert "they" in (trained / "why.html").read_text()
    code, out, _ = run("text", "important", model, "--limit", 2, "--plot", trained / "map.svg", "--json")
    told = validated(out)
    assert (code, len(told["tokens"])) == (0, 6)
    assert {each["posterior"] for each in told["tokens"]} == {1.0}
    assert (trained / "map.svg").stat().st_size > 10_000
    code, out, _ = run("text", "important", model, "--label", "sport", "--limit", 1)
    assert out.splitlines()[1].split()[0] == "sport"


def test_the_same_whatever_the_number_of_workers(trained, run):
    told = []
    for n in (1, 3):
        _, out, _ = run("text", "train", trained / "notes.csv", "--workers", n, "--json", "--quiet")
        told.append(json.loads(out))
    assert told[0] == told[1]


def test_a_file_to_test_on_and_nothing_held_out(trained, run, validated):
    shutil.copy(trained / "notes.csv", trained / "more.csv")
    _, out, err = run(
        "text", "train", trained / "notes.csv", "--test", trained / "more.csv", "--top-k", 3, "--json"
    )
    assert validated(out)["held_out"]["texts"] == 90
    assert "at random" not in err
    _, out, _ = run(
        "text", "train", trained / "notes.csv", "--held-out", 0, "--json", "--entropy-penalty", 0.1
    )
    told = validated(out)
    assert told["held_out"] is None
    assert told["status"] == "no text was held out, so accuracy is not known"


def test_a_checkpoint_is_gone_on_from(trained, run):
    command = ["text", "train", trained / "notes.csv", "--checkpoint", trained / "c.npz", "--json", "--quiet"]
    first, again = (run(*command) for _ in range(2))
    assert first == again
    code, _, err = run(*command, "--seed", 1)
    assert code == 2
    assert "must be of the same texts and settings" in err


@pytest.mark.parametrize(
    "words, said",
    [
        (["train", "missing.csv"], "missing.csv: No such file or directory"),
        (["train", "notes.csv", "--label-column", "colour"], "no column 'colour' among 'text', 'label'"),
        (["train", "one.csv"], "y must hold at least two classes, got one class"),
        (["train", "bare.csv"], "FILE must hold texts with labels, got none"),
        (["train", "few.csv"], "FILE must hold some texts of each class to hold any out"),
        (
            ["train", "notes.csv", "--top-k", "3", "--entropy-penalty", "0.1"],
            "--top-k and --entropy-penalty exclude each other; pass one of them",
        ),
        (["train", "notes.csv", "--out", "notes.csv"], "this file is needed; choose another name"),
        (
            ["explain", "notes.csv", "a"],
            "must be a model that AttentionClassifier.save wrote, got another file",
        ),
        (["explain", "model.npz", "xyz qqq"], "TEXT must hold a token that the model knows, got none"),
        (
            ["explain", "model.npz", "they", "--label", "x"],
            "label must be one of ['news', 'sport', 'weather']",
        ),
        (["important", "model.npz", "--plot", "map.doc"], "--plot must end in .svg, .png, .pdf, got map.doc"),
        (["important", "gone.npz"], "gone.npz: No such file or directory"),
    ],
)
def test_mistakes_end_in_a_sentence(trained, run, monkeypatch, words, said):
    monkeypatch.chdir(trained)
    (trained / "one.csv").write_text("text,label\n" + "a b,x\n" * 20)
    (trained / "bare.csv").write_text("text,label\na b,\n")
    (trained / "few.csv").write_text("text,label\na b,x\nb c,y\n")
    if not (trained / "model.npz").exists():
        run("text", "train", "notes.csv", "--out", "model.npz")
    code, out, err = run("text", *words)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
