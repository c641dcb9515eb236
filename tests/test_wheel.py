"""The wheel works without the clone: installed elsewhere, it runs the first commands of the README."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.extra
@pytest.mark.slow
def test_the_wheel_runs_outside_the_clone(tmp_path):
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(tmp_path),
        str(ROOT),
    ]
    subprocess.run(build, check=True, capture_output=True)
    [wheel] = tmp_path.glob("hardmax-*.whl")
    command = [sys.executable, str(ROOT / "tools" / "release_check.py"), str(wheel)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("ok ") == 5
