"""Texts that workers of a backend read: the same answer and the same refusals, whoever dies."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from hardmax.app.results.next_token_check import check as ntp_check
from hardmax.data.sentences import streaming


@pytest.fixture
def workers_that(monkeypatch):
    """Workers that do with a part what they are told, without a cluster."""

    def do(work):
        monkeypatch.setattr(
            "hardmax.trials.sweep.spread", lambda task, cells, **where: ((cell, work(cell)) for cell in cells)
        )

    return do


@pytest.mark.parametrize(
    "name, content, words",
    [
        ("bad.txt", b"a b\n" * 9 + b"a \xff b\n", "bad.txt: line 10 must be in UTF-8"),
        ("bad.txt.gz", gzip.compress(b"a b\na \xff\n", mtime=0), "bad.txt.gz: line 2 must be in UTF-8"),
        ("bad.txt.gz", b"a b\n", "bad.txt.gz: cannot decompress the file"),
        ("bad.json", b"[[0.5]]", "bad.json: sentences"),
    ],
)
def test_a_backend_names_a_file_as_it_was_given(tmp_path, monkeypatch, workers_that, name, content, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(streaming.parts_of, "__defaults__", (8,))
    (tmp_path / "good.txt").write_text("a b\n")
    (tmp_path / name).write_bytes(content)
    workers_that(lambda part: None)  # no worker could read it, so it is read here
    with pytest.raises(ValueError, match=r"must|cannot") as local:
        ntp_check("good.txt", name)
    with pytest.raises(ValueError, match=r"must|cannot") as apart:
        ntp_check("good.txt", name, backend="dask")
    assert str(apart.value) == str(local.value)
    assert str(apart.value).startswith(words)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes on this system")
def test_a_pipe_is_read_here_and_once_whoever_reads_files(tmp_path, workers_that):
    """A worker that died with half of it would have left the other half to the next."""
    pipe, file = tmp_path / "pipe", tmp_path / "file.txt"
    os.mkfifo(pipe)
    file.write_text("c a\n")
    workers_that(streaming.count_part)
    with ThreadPoolExecutor(1) as writer:
        writer.submit(pipe.write_text, "a b\nb c\n")
        found = ntp_check(file, pipe, file, backend="dask")
    assert (found.sentences.n, found.sentences.counts.tolist()) == (4, [2, 1, 1])


@pytest.mark.extra
@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_a_backend_gives_the_same_answer_although_a_worker_is_killed(tmp_path, monkeypatch, backend):
    rng = np.random.default_rng(1)
    files = []
    for k in range(3):
        files.append(tmp_path / f"{k}.txt")
        lines = (" ".join(f"w{x}" for x in rng.integers(0, 40, rng.integers(1, 6))) for _ in range(400))
        files[-1].write_text("\n".join(lines) + "\n")
    here = json.dumps(ntp_check(*files).json())
    monkeypatch.setattr(streaming, "PART", 2000)
    flag = tmp_path / "killed"
    task = tmp_path / "deadly.py"
    task.write_text(
        "import os, signal\nfrom pathlib import Path\n"
        "from hardmax.data.sentences.streaming import count_part\n"
        "def work(parameters, seed):\n"
        f"    if parameters['start'] > 3000 and not Path({str(flag)!r}).exists():\n"
        f"        Path({str(flag)!r}).touch()\n        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return count_part(parameters, seed)\n"
    )
    monkeypatch.setattr(streaming, "TASK", f"{task}:work")
    assert json.dumps(ntp_check(*files, backend=backend, workers=2).json()) == here
    assert flag.exists()


@pytest.mark.extra
def test_the_end_of_rays_own_node_is_no_verdict(tmp_path):
    """ray itself ends the process a minute later, with the code that means "not realizable"."""
    (tmp_path / "text.txt").write_text("a b\nb a\n")
    (tmp_path / "deadly.py").write_text(
        "import os, signal, time\n"
        "def work(parameters, seed):\n"
        "    os.kill(os.getppid(), signal.SIGKILL)\n    time.sleep(600)\n"
    )
    script = (
        "from hardmax.app import cli\nfrom hardmax.data.sentences import streaming\n"
        "streaming.TASK = 'deadly.py:work'\ncli.main()\n"
    )
    command = ["ntp", "check", "text.txt", "--backend", "ray", "--workers", "1"]
    done = subprocess.run(
        [sys.executable, "-c", script, *command], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 2
    assert "hardmax: ray's own node has ended (raylet" in done.stderr
