"""Print constraints that pin every direct dependency to its lower bound in pyproject.toml.

    python tools/oldest.py > build/oldest.txt

`make test-oldest` installs hardmax under these constraints and runs the tests.
"""

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
EXTRAS = ("text", "export", "hunt")
# Newer releases of these warn when the oldest of our dependencies use them; a warning is an error.
ALSO = ("pyparsing==3.1.4",)


def lower_bounds(project: dict[str, object]) -> list[str]:
    """Return `name==version` for each requirement `name>=version` of the core and of EXTRAS."""
    optional = project["optional-dependencies"]
    requirements = [*project["dependencies"], *(line for extra in EXTRAS for line in optional[extra])]
    pinned = (re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?>=([\w.]+)", line) for line in requirements)
    return sorted({f"{match[1]}=={match[2]}" for match in pinned if match})


if __name__ == "__main__":
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    print(*lower_bounds(project), *ALSO, sep="\n")
