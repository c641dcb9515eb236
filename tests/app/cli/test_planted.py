"""Files in the current folder that are named as modules are never run, whatever command is given there."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PROGRAM = Path(sys.executable).with_name("hardmax")
# what hardmax, Python and multiprocessing import early, late, or only in a worker
NAMES = (
    "hardmax numpy json typing random numba scipy secrets struct pickle socket subprocess "
    "multiprocessing signal tempfile logging dataclasses functools contextlib collections "
    "threading queue heapq base64 hashlib sqlite3 rich typer click matplotlib threadpoolctl flint "
    "daqp cma snowballstemmer sklearn starlette uvicorn asyncio torch transformers tokenizers "
    "safetensors dask distributed ray cloudpickle sitecustomize usercustomize runpy"
)
PLANTED = "open(__file__ + '.ran', 'w').close()\nraise SystemExit('a planted file was run')\n"
OWN = "def f(parameters, seed):\n    return {'x': parameters['a'] + seed % 2}\n"
SWEEP = 'function = "own.py:f"\ntrials = 4\nworkers = 1\n[grid]\na = [1, 2]\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not PROGRAM.exists():
        pytest.skip("the command hardmax is not installed next to this Python")
    place = tmp_path_factory.mktemp("planted")
    for name in ("three-inputs.json", "svop.txt"):
        shutil.copy(ROOT / "examples" / name, place)
    rows = ["text,label"] + [
        line for k in range(12) for line in (f"they won {k},sport", f"it rained {k},news")
    ]
    (place / "notes.csv").write_text("\n".join(rows) + "\n")
    (place / "own.py").write_text(OWN)
    (place / "own.toml").write_text(SWEEP)
    for name in NAMES.split():
        (place / f"{name}.py").write_text(PLANTED)
    return place


def ran(folder: Path) -> list[str]:
    """The planted files that were run; they are forgotten, so that the next command begins afresh."""
    found = sorted(folder.glob("*.ran"))
    for path in found:
        path.unlink()
    return [path.name for path in found]


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the console script there; check that none of the planted files was run."""
    done = subprocess.run([PROGRAM, *words], cwd=folder, capture_output=True, text=True, timeout=500)
    assert ran(folder) == [], done.stderr
    assert "Traceback" not in done.stderr
    assert "planted" not in done.stdout + done.stderr
    return done


def test_the_planted_files_would_be_run(folder: Path) -> None:
    """The test means something: Python itself, started there as hardmax once started a worker, runs one."""
    done = subprocess.run(
        [sys.executable, "-m", "hardmax.app.playground.workers"], cwd=folder, capture_output=True
    )
    assert done.returncode != 0
    assert ran(folder)


@pytest.mark.parametrize(
    "line, code",
    [
        ("--version", 0),
        ("--help", 0),
        ("solve three-inputs.json --flow --plot plane.svg", 0),
        ("verify C-LEM-1", 0),
        ("reproduce B-FIG-8 --out figures", 0),
        ("sweep own.toml --store own.sqlite", 0),
        ("hunt B-THM-1 --reading paper --tries 1 --workers 1", None),
        ("hunt own.py:f --tries 1 --workers 1", 3),  # it runs the file that is named, and no other
        ("doctor", None),
        ("ntp check svop.txt", 0),
        ("ntp generate --vocabulary 5 --out drawn.txt", 0),
        ("ntp train svop.txt --out model.npz --steps 2", 0),
        ("ntp predict model.npz S", 0),
        ("text train notes.csv --out text.npz --workers 2", 0),
        ("text explain text.npz rained", 0),
        ("text important text.npz --limit 1", 0),
    ],
    ids=lambda value: value.partition(" --")[0] if isinstance(value, str) else "",
)
def test_commands(folder: Path, line: str, code: int | None) -> None:
    done = run(folder, *line.split())
    assert code is None or done.returncode == code, done.stderr


def test_certify(folder: Path) -> None:
    run(folder, "solve", "three-inputs.json", "--certificates", "proofs")
    done = run(folder, "certify", "proofs/selection-0.json", "--json")
    assert json.loads(done.stdout)["valid"]


@pytest.mark.extra
def test_probe(folder: Path) -> None:
    reason = "transformers is not installed: make test-extras installs it"
    transformers = pytest.importorskip("transformers", reason=reason)
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {word: n for n, word in enumerate(["[UNK]", "[PAD]", "the", "cat", "sat"])}
    inner = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, unk_token="[UNK]", pad_token="[PAD]"
    )
    tokenizer.save_pretrained(folder / "model")
    size = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = transformers.BertConfig(**size, vocab_size=len(words))
    transformers.BertModel(config).save_pretrained(folder / "model")
    (folder / "texts.txt").write_text("the cat sat the cat\ncat sat the sat cat\n" * 4)
    done = run(folder, "probe", "model", "--texts", "texts.txt", "--null", "3")
    assert done.returncode == 0, done.stderr


@pytest.mark.extra
@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_workers_of_clusters(folder: Path, backend: str) -> None:
    pytest.importorskip(backend, reason=f"{backend} is not installed: make test-extras installs it")
    done = run(folder, "sweep", "own.toml", "--store", f"{backend}.sqlite", "--backend", backend, "--json")
    if "ray cannot start here" in done.stderr:
        pytest.skip("ray cannot start a node on this machine")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["done"] == 8


@pytest.mark.extra
def test_workers_of_ray_do_not_get_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ray hands it to them, to be put in front of everything else."""
    pytest.importorskip("ray", reason="ray is not installed: make test-extras installs it")
    from hardmax.trials.backends.ray import _job_config

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["/scripts", "/site-packages"])
    config = _job_config()
    config._py_driver_sys_path.extend(["/scripts", str(tmp_path)])
    assert config._py_driver_sys_path == ["/scripts"]
    assert list(config._get_proto_job_config().py_driver_sys_path) == ["/scripts"]


@pytest.mark.extra
def test_play(folder: Path) -> None:
    """Its engines are processes, started when the page is: the first question waits for one."""
    pytest.importorskip("starlette", reason="starlette is not installed: make test-extras installs it")
    import http.client
    from urllib.parse import urlsplit

    command = [PROGRAM, "play", "--no-browser", "--json"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = urlsplit(json.loads(server.stdout.readline())["address"])
            connection = http.client.HTTPConnection(str(url.hostname), url.port, timeout=300)
            headers = {"X-Hardmax-Token": url.query.removeprefix("t=")}
            connection.request("POST", "/ask", b'{"v": 1, "ask": "tour"}', headers)
            assert json.loads(connection.getresponse().read())["ok"]
            connection.close()
        finally:
            server.terminate()
    assert server.returncode == 130
    assert ran(folder) == []
