"""The wheel works without the clone: installed elsewhere, it runs the first commands of the README."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.extra
@pytest.mark.slow
def test_the_wheel_runs_outside_the_clone(tmp_path):
    build = [sys.executable, "-m", "build", "--outdir", str(tmp_path), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".gz", ".whl"]
    command = [sys.executable, str(ROOT / "tools" / "release_check.py"), str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["ok"] * 8
