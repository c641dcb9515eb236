"""Rehearse a release: install hardmax from a folder into an empty environment and run its first commands.

    python tools/release_check.py dist

The folder holds a wheel and a source archive. The dependencies come from requirements.lock, each checked
against its hash; then `pip install hardmax` finds the wheel in the folder. Everything runs outside the clone.
Exit code 1 if a command fails.
"""

import doctest
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
COMMANDS = (
    ["hardmax", "--version"],
    ["hardmax", "solve", "three-inputs", "--flow"],
    ["hardmax", "verify", "B-THM-3"],
    ["hardmax", "reproduce", "--ledger", "--json"],
    ["python", "-c", "import hardmax as hm; print(hm.attractors(hm.data.example('two-inputs')))"],
)


def first_example(page: str) -> str:
    """The first Python example of a page, as a script that fails if an output differs."""
    block = page.split("```python\n")[1].split("```")[0]
    examples = doctest.DocTestParser().get_examples(block)
    if not examples:
        raise ValueError("the first Python block of the README has no >>> example")
    return f"import doctest, sys\nsys.exit(doctest.run_docstring_examples({block!r}, {{}}) or 0)\n"


def run(program: Path, arguments: list[str], folder: str) -> bool:
    """Run a program of the new environment, and print its output if it fails."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, env=clean)
    failed = done.returncode != 0 or "Failed example" in done.stdout
    print(f"{'FAIL' if failed else 'ok'}  {program.name} {' '.join(arguments)}"[:100])
    if failed:
        print(done.stdout, done.stderr, sep="\n")
    return not failed


def main(dist: Path) -> int:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "environment")
        venv.create(home, with_pip=True)
        programs = home / ("Scripts" if sys.platform == "win32" else "bin")
        script = Path(folder, "first_example.py")
        script.write_text(first_example((ROOT / "README.md").read_text(encoding="utf-8")), encoding="utf-8")
        pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        lines = (
            ["python", *pip, "--require-hashes", "-r", str(ROOT / "requirements.lock")],
            ["python", *pip, "--no-index", "--find-links", str(dist.resolve()), "hardmax"],
            *COMMANDS,
            ["python", str(script)],
        )
        return 0 if all(run(programs / program, arguments, folder) for program, *arguments in lines) else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
