"""The architecture page agrees with the tree: names, order of imports, picture, files."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "hardmax"
PAGE = (ROOT / "docs" / "project" / "architecture.md").read_text(encoding="utf-8")

FOLDERS = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
PACKAGES = FOLDERS | {path.stem for path in SOURCE.glob("*.py")} - {"__init__"}


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


TABLES = section("Packages, in the order of imports")
ORDER = re.findall(r"^\| `(\w+)` \| [^|]+ \|$", TABLES, re.MULTILINE)


def imports(path: Path) -> set[str]:
    """Packages that a file imports, anywhere in it but for the eyes of a type checker."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    hidden = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree):
        if node in hidden:
            continue
        if isinstance(node, ast.ImportFrom) and node.module == "hardmax":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= set(re.findall(r"^hardmax\.(\w+)", node.module))
        elif isinstance(node, ast.Import):
            found |= {name for alias in node.names for name in re.findall(r"^hardmax\.(\w+)", alias.name)}
    return found & PACKAGES


def test_the_table_names_every_package_once():
    assert sorted(ORDER) == sorted(PACKAGES)


def test_imports_go_downwards_only():
    upward = set()
    for path in SOURCE.rglob("*.py"):
        own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if own != "__init__":
            upward |= {(own, other) for other in imports(path) if ORDER.index(other) > ORDER.index(own)}
    assert upward == set()


def test_the_picture_shows_every_folder():
    picture = (ROOT / "docs" / "img" / "architecture.svg").read_text(encoding="utf-8")
    words = set(re.findall(r"\w+", " ".join(re.findall(r"<text[^>]*>([^<]*)<", picture))))
    assert words >= FOLDERS - {"_lib"}
    assert set(re.findall(r'class="name"[^>]*>([^<]*)<', picture)) <= PACKAGES


def test_the_files_of_formulas_exist():
    named = re.findall(r"`((?:\w+/)+\w+(?:\.py)?)`", section("Where a formula lives"))
    assert len(named) > 5
    assert [each for each in named if not (SOURCE / each).exists()] == []
