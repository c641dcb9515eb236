"""Files are written whole or not at all, never through a link, never in the place of a pipe or a device."""

import os
import stat
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax import nexttoken
from hardmax._lib import files
from hardmax._lib.files import whole, whole_text
from hardmax.app.results.session import writable


def _half(text, error: BaseException) -> None:
    text.write("half of it")
    raise error


posix = pytest.mark.skipif(os.name != "posix", reason="links, pipes and devices as on POSIX")


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with whole(path) as file:
        file.write(b"new")
        (draft,) = set(tmp_path.iterdir()) - {path}
        assert draft.name.startswith(".hardmax-")
        assert path.read_text() == "old"
    assert [path] == list(tmp_path.iterdir())
    assert path.read_text() == "new"
    for error in (OSError(28, "full"), ValueError("bad"), KeyboardInterrupt()):
        with pytest.raises(type(error)), whole_text(path) as text:
            _half(text, error)
    assert [path] == list(tmp_path.iterdir())
    assert path.read_text() == "new"


def test_errors_name_the_file_and_not_its_draft(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space") as found, whole(tmp_path / "a.txt"):
        raise OSError(28, "No space left on device")
    assert found.value.filename == str(tmp_path / "a.txt")


def test_drafts_have_names_that_nobody_can_guess(tmp_path: Path) -> None:
    with whole(tmp_path / "a") as _, whole(tmp_path / "a") as _:
        names = [each.name for each in tmp_path.iterdir()]
    assert len(set(names)) == 2
    assert all(len(name) == len(".hardmax-.part") + 16 for name in names)


@posix
def test_a_draft_is_made_anew_and_never_opened_through_a_planted_link(tmp_path: Path, monkeypatch) -> None:
    other = tmp_path / "other.txt"
    other.write_text("precious")
    monkeypatch.setattr(files.os, "urandom", lambda n: bytes(n))
    (tmp_path / f".hardmax-{'00' * 8}.part").symlink_to(other)
    with pytest.raises(OSError, match="File exists"), whole(tmp_path / "a.txt"):
        raise AssertionError
    assert other.read_text() == "precious"


@posix
def test_a_file_that_was_private_stays_private(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.touch(0o600)
    with whole(path) as file:
        file.write(b"secret")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@posix
@pytest.mark.parametrize("target", ["real.txt", "nothing.txt", "link.txt"])
def test_a_link_is_refused_whatever_it_leads_to(tmp_path: Path, target: str) -> None:
    (tmp_path / "real.txt").write_text("real")
    link = tmp_path / "link.txt"
    link.symlink_to(tmp_path / target)
    with pytest.raises(ValueError, match=r"link\.txt: this is a link to .*; give the name of a file itself"):
        writable("csv", link)
    with pytest.raises(ValueError, match="this is a link to"), whole(link):
        raise AssertionError
    assert (tmp_path / "real.txt").read_text() == "real"
    assert not (tmp_path / "nothing.txt").exists()


@posix
def test_a_folder_may_be_reached_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with whole_text(tmp_path / "link" / "a.txt") as file:
        file.write("here")
    assert (tmp_path / "real" / "a.txt").read_text() == "here"


@posix
def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()), daemon=True)
    reader.start()
    with whole(pipe) as file:
        file.write(b"through")
    reader.join(10)
    assert found == [b"through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@posix
def test_a_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    device = tmp_path / "null"
    try:
        os.mknod(device, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        device.write_bytes(b"")  # a folder may be mounted without devices
    except OSError:
        pytest.skip("no device can be made here")
    with whole(device) as file:
        file.write(b"gone")
    assert stat.S_ISCHR(device.stat().st_mode)


@posix
def test_a_disk_and_a_socket_are_refused(tmp_path: Path, monkeypatch) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as made:
        monkeypatch.chdir(tmp_path)  # their names must be short
        made.bind("socket")
        with pytest.raises(ValueError, match="this is a disk or a socket"):
            writable("out", Path("socket"))


@posix
@pytest.mark.parametrize(
    "write",
    [
        lambda path: hm.data.example("B-FIG-8").save(path.with_suffix(".npz")),
        lambda path: hm.data.example("B-FIG-8").save(path.with_suffix(".json")),
        lambda path: hm.max_margin(hm.Constraints.dense([[1.0]])).save(path.with_suffix(".json")),
        lambda path: nexttoken.write_sentences(path.with_suffix(".txt"), nexttoken.named_sentences("C-EX-1")),
        lambda path: hm.sweep(lambda p, seed: {"x": 1}, {}, 1, workers=0).to_csv(path.with_suffix(".csv")),
    ],
)
def test_every_writer_goes_the_one_way(tmp_path: Path, write) -> None:
    """Links are refused, and what is already there is replaced at once."""
    (tmp_path / "real").write_text("real")
    for ending in (".npz", ".json", ".txt", ".csv"):
        (tmp_path / f"link{ending}").symlink_to("real")
        (tmp_path / f"old{ending}").write_text("old")
    with pytest.raises(ValueError, match="this is a link to real"):
        write(tmp_path / "link")
    assert (tmp_path / "real").read_text() == "real"
    inodes = {path: path.stat().st_ino for path in tmp_path.glob("old*")}
    write(tmp_path / "old")
    (changed,) = [path for path in inodes if path.read_bytes() != b"old"]
    assert not list(tmp_path.glob(".*"))
    assert changed.stat().st_size > 3


def test_a_trajectory_is_saved_under_the_very_name(tmp_path: Path) -> None:
    path = hm.train(hm.data.example("B-FIG-8"), hm.optim.Normalized(0.1), steps=3)
    path.save(tmp_path / "run")
    np.testing.assert_array_equal(hm.Run.load(tmp_path / "run").points, path.points)


def test_two_writers_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"

    def write(number: int) -> None:
        with whole_text(path) as file:
            for _ in range(100):
                file.write(f"{number}\n")

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(20)))
    assert len(set(path.read_text().split())) == 1
    assert list(tmp_path.iterdir()) == [path]


@posix
def test_another_name_of_standard_output_is_appended_to(tmp_path: Path) -> None:
    program = (
        "from hardmax._lib.files import whole_text; print('first', flush=True)\n"
        "with whole_text('/dev/stdout') as file: file.write('second\\n')"
    )
    if not Path("/dev/stdout").exists():
        pytest.skip("no /dev/stdout")
    import sys

    with (tmp_path / "out.txt").open("w") as out:
        subprocess.run([sys.executable, "-c", program], stdout=out, check=True)
    assert (tmp_path / "out.txt").read_text() == "first\nsecond\n"


def test_what_a_command_needs_is_not_overwritten(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("")
    for same in (mine, tmp_path / "x" / ".." / "mine.py"):
        (tmp_path / "x").mkdir(exist_ok=True)
        with pytest.raises(ValueError, match=r"`csv` .*mine\.py: this file is needed; choose another name"):
            writable("csv", same, tmp_path / "a.toml", mine)
    (tmp_path / "twin.py").hardlink_to(mine)
    with pytest.raises(ValueError, match="this file is needed"):
        writable("csv", tmp_path / "twin.py", mine)
    writable("csv", tmp_path / "new.csv", mine, tmp_path / "not-yet.csv")
