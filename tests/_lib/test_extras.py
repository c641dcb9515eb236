"""A missing extra comes with the command that installs it from where hardmax was installed from."""

import json
import re
from importlib import metadata
from pathlib import Path
from urllib.request import pathname2url

import pytest

from hardmax._lib import extras

ROOT = Path(__file__).parents[2]


@pytest.fixture
def installed(monkeypatch):
    def note(origin):
        class Distribution:
            @staticmethod
            def read_text(name):
                assert name == "direct_url.json"
                return None if origin is None else json.dumps(origin)

        monkeypatch.setattr(metadata, "distribution", lambda name: Distribution())

    return note


def test_from_a_clone(installed, tmp_path, monkeypatch):
    clone = tmp_path / "my clone"
    clone.mkdir()
    (clone / "pyproject.toml").touch()
    installed({"url": "file://" + pathname2url(str(clone)), "dir_info": {"editable": True}})
    assert extras.install("text") == f'pip install "{clone}[text]"'
    monkeypatch.chdir(clone)
    assert extras.install("text") == 'pip install ".[text]"'


def test_from_a_clone_that_is_gone(installed, tmp_path):
    installed({"url": (tmp_path / "gone").as_uri(), "dir_info": {}})
    assert extras.install("text") == 'pip install ".[text]"'


def test_from_a_repository_an_archive_or_the_index(installed):
    installed({"url": "https://example.org/hardmax", "vcs_info": {"vcs": "git", "commit_id": "1"}})
    assert extras.install("text") == 'pip install "hardmax[text] @ git+https://example.org/hardmax"'
    installed({"url": "https://example.org/hardmax.whl", "archive_info": {}})
    assert extras.install("text") == 'pip install "hardmax[text] @ https://example.org/hardmax.whl"'
    installed(None)
    assert extras.install("text") == 'pip install "hardmax[text]"'


def test_from_the_source_without_an_installation(monkeypatch, tmp_path):
    def absent(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", absent)
    monkeypatch.chdir(tmp_path)
    assert extras.install("text") == f'pip install "{ROOT}[text]"'


def test_no_message_or_page_takes_the_name_from_the_index():
    """Until hardmax is on the index, pip install hardmax[...] would find nothing, or something else."""
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    named = re.compile(r"pip install [\"']?hardmax")
    found = [path.name for path in files if named.search(path.read_text(encoding="utf-8"))]
    assert found == []
