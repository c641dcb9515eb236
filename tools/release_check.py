"""Install a wheel into an empty environment outside the clone and run the first commands of the README.

    python tools/release_check.py dist/hardmax-0.3.0-py3-none-any.whl

Exit code 1 if a command fails. The packages that hardmax needs come from where pip finds them.
"""

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"
COMMANDS = (
    ["hardmax", "--version"],
    ["hardmax", "solve", "three-inputs", "--flow"],
    ["hardmax", "verify", "B-THM-3"],
    ["hardmax", "reproduce", "--ledger", "--json"],
    ["python", "-c", "import hardmax as hm; print(hm.attractors(hm.data.example('two-inputs')))"],
)


def main(wheel: Path) -> int:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "environment")
        venv.create(home, with_pip=True)
        programs = home / ("Scripts" if sys.platform == "win32" else "bin")
        quiet = ["--quiet", "--disable-pip-version-check", "-c", str(CONSTRAINTS)]
        subprocess.run([programs / "python", "-m", "pip", "install", *quiet, wheel.resolve()], check=True)
        for program, *arguments in COMMANDS:
            done = subprocess.run(
                [programs / program, *arguments], cwd=folder, capture_output=True, text=True
            )
            print(f"{'ok' if done.returncode == 0 else 'FAIL'}  {program} {' '.join(arguments)}")
            if done.returncode:
                print(done.stdout, done.stderr, sep="\n")
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
