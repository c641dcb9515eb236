"""Work that is finished is kept: through kill -9, damage, other processes, and without a writable folder."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import hardmax as hm
from hardmax.data.text import gathering

from .conftest import assert_same, synthetic, write_reviews

CHUNK = 2000
# Slow in reading, so that it can be killed in the middle, with workers at work.
SLOW = f"""
import sys, time
import hardmax as hm
from hardmax.data.text import gathering

read = gathering.read_reviews

def slowly(*args, **options):
    for review in read(*args, **options):
        time.sleep(0.01)
        yield review

gathering.read_reviews, gathering.CHUNK = slowly, {CHUNK}
hm.embeddings.text_corpus(sys.argv[1], min_count=5, workers=2)
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(gathering, "CHUNK", CHUNK)
    return write_reviews(tmp_path / "some.csv", synthetic(600, seed=2))


def chunks(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.name.isdecimal()}


@pytest.mark.slow
def test_kill_in_the_middle(file: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = subprocess.Popen([sys.executable, "-c", SLOW, str(file)])
    end = time.monotonic() + 300
    while len(chunks(cache)) < 3:
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = chunks(cache)
    assert not list(cache.rglob("end"))
    resumed = hm.embeddings.text_corpus(file, min_count=5, workers=2)
    after = chunks(cache)
    assert len(before) < len(after)
    assert before == {path: after[path] for path in before}  # kept, not made again
    monkeypatch.setenv("HARDMAX_CACHE", str(tmp_path / "fresh"))
    assert_same(resumed, hm.embeddings.text_corpus(file, min_count=5, workers=1))


def test_found_again_without_reading(file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = hm.embeddings.text_corpus(file, min_count=5, workers=1)
    moved = file.rename(file.with_name("moved.csv"))  # the content is what counts
    monkeypatch.setattr(gathering, "read_reviews", None)
    assert_same(made, hm.embeddings.text_corpus(moved, min_count=5))
    # Another setting begins with the words that are there.
    fewer = hm.embeddings.text_corpus(moved, min_count=20, max_tokens=10, workers=1)
    assert fewer.corpus.S < made.corpus.S
    assert fewer.report.words == made.report.words


def test_another_input_is_another_result(file: Path, cache: Path) -> None:
    made = hm.embeddings.text_corpus(file, min_count=5, workers=1)
    file.write_text(file.read_text(encoding="utf-8").replace(",-1", ",1"), encoding="utf-8")
    assert (made.corpus.labels < 0).any()
    assert (hm.embeddings.text_corpus(file, min_count=5, workers=1).corpus.labels > 0).all()


@pytest.mark.parametrize("harm", [lambda content: content[:-9], lambda content: b"", "flip"])
def test_damage_is_not_believed(file: Path, cache: Path, harm: object) -> None:
    made = hm.embeddings.text_corpus(file, min_count=5, workers=1)
    entries = [path for path in cache.rglob("*") if path.is_file()]
    assert len(entries) > 5
    for path in entries:
        content = path.read_bytes()
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        path.write_bytes(harm(content) if callable(harm) else flipped)
    again = hm.embeddings.text_corpus(file, min_count=5, workers=1)
    assert_same(made, again)


def test_without_a_writable_folder(file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = hm.embeddings.text_corpus(file, min_count=5, workers=1)
    blocked = file.with_name("a file")
    blocked.touch()
    monkeypatch.setenv("HARDMAX_CACHE", str(blocked / "below"))
    bare = hm.embeddings.text_corpus(file, min_count=5, workers=1)
    (note,) = bare.report.notes
    assert note.startswith("nothing was cached")
    assert "HARDMAX_CACHE" in note
    assert bare.corpus.vocabulary == made.corpus.vocabulary
    assert bare.corpus.counts.tolist() == made.corpus.counts.tolist()


def test_side_by_side(file: Path, cache: Path) -> None:
    with ThreadPoolExecutor(3) as threads:
        calls = [threads.submit(hm.embeddings.text_corpus, file, min_count=5, workers=1) for _ in range(3)]
        made = [call.result() for call in calls]
    assert_same(made[0], made[1])
    assert_same(made[0], made[2])
    assert not list(cache.rglob("*.part"))


def test_drafts_of_the_dead_are_swept(file: Path, cache: Path) -> None:
    hm.embeddings.text_corpus(file, min_count=5, workers=1)
    (folder,) = {path.parent for path in chunks(cache)}
    old, new = folder / ".hardmax-1.part", folder / ".hardmax-2.part"
    for path in (old, new):
        path.touch()
    os.utime(old, (0, 0))
    hm.embeddings.text_corpus(file, min_count=5, workers=1)
    assert not old.exists()
    assert new.exists()


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: Path) -> None:
    monkeypatch.delenv("HARDMAX_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert gathering.cache_folder().name == "hardmax"
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    with pytest.raises(ImportError, match=r"pip install .*\[text\]"):
        hm.embeddings.text_corpus(file)
