"""Count what makes a source tree hard to read, of one tree or of two side by side.

    python docs/_tools/house.py TREE [OTHER]

Code lines are neither blank, comment nor docstring. Cycles of modules are counted by the imports that run
when a module is imported, and with those inside functions; imports for type checkers count in neither.
"""

import ast
import functools
import io
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

SKIPPED = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)


class House:
    """The Python files under a source folder, parsed."""

    def __init__(self, source: Path) -> None:
        self.source = source
        self.texts = {path: path.read_text(encoding="utf-8") for path in sorted(source.rglob("*.py"))}
        self.trees = {self.module(path): ast.parse(text) for path, text in self.texts.items()}
        self.packages = {self.module(path) for path in self.texts if path.name == "__init__.py"}

    def module(self, path: Path) -> str:
        parts = path.relative_to(self.source.parent).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def lines(self) -> int:
        return sum(len(text.splitlines()) for text in self.texts.values())

    def code_lines(self) -> int:
        return sum(len(_code(text)) for text in self.texts.values())

    def repeated_classes(self) -> dict[str, int]:
        """Class names that more than one file defines at its top level."""
        found = Counter(
            node.name for tree in self.trees.values() for node in tree.body if isinstance(node, ast.ClassDef)
        )
        return {name: count for name, count in found.items() if count > 1}

    def targets(self, node: ast.AST, module: str) -> set[str]:
        """Modules of this tree that an import statement names."""
        root = self.source.name
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                parts = parts[: len(parts) - node.level + (module in self.packages)]
                base = ".".join([*parts, *filter(None, [node.module])])
            names = [
                f"{base}.{alias.name}" if f"{base}.{alias.name}" in self.trees else base
                for alias in node.names
            ]
        else:
            return set()
        return {name for name in names if name == root or name.startswith(f"{root}.")} & {*self.trees}

    def imports(self, module: str, at_import: bool) -> set[str]:
        """Modules that a module imports when it is imported itself, or also inside its functions."""
        walk = _running(self.trees[module], into_functions=not at_import)
        return {name for node in walk for name in self.targets(node, module)} - {module}

    def cycles(self) -> list[list[str]]:
        """Groups of modules that import each other in a circle."""
        graph = {module: self.imports(module, at_import=True) for module in self.trees}
        return [sorted(group) for group in _components(graph) if len(group) > 1]

    def hidden_cycles(self) -> list[list[str]]:
        """The same with the imports inside functions."""
        graph = {module: self.imports(module, at_import=False) for module in self.trees}
        return [sorted(group) for group in _components(graph) if len(group) > 1]

    def local_imports(self) -> int:
        """Imports of the package inside functions."""
        count = 0
        for module, tree in self.trees.items():
            every, outside = (_running(tree, into_functions=each) for each in (True, False))
            count += sum(bool(self.targets(node, module)) for node in every)
            count -= sum(bool(self.targets(node, module)) for node in outside)
        return count

    def libraries(self, module: str) -> set[str]:
        """Libraries of others that are loaded with a module."""
        seen: set[str] = set()
        waiting = [module]
        while waiting:
            each = waiting.pop()
            if each not in seen:
                seen.add(each)
                waiting += [*self.loaded[each][0], each.rpartition(".")[0] or each]
        return set().union(*(self.loaded[each][1] for each in seen))

    @functools.cached_property
    def loaded(self) -> dict[str, tuple[set[str], set[str]]]:
        """The modules and the libraries of others that each module imports when it is imported itself."""
        found = {}
        for module, tree in self.trees.items():
            names: set[str] = set()
            for node in _running(tree, into_functions=False):
                if isinstance(node, ast.Import):
                    names |= {alias.name.split(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    names.add((node.module or "").split(".")[0])
            own = {self.source.name, "__future__", *sys.stdlib_module_names}
            found[module] = self.imports(module, at_import=True), names - own
        return found

    def hidden_imports(self) -> list[tuple[str, str]]:
        """Modules with the imports inside their functions that load no library which they would lack."""
        found, libraries = [], {module: self.libraries(module) for module in self.trees}
        for module, tree in self.trees.items():
            outside = {id(node) for node in _running(tree, into_functions=False)}
            for node in _running(tree, into_functions=True):
                names = set() if id(node) in outside else self.targets(node, module)
                if names and set().union(*(libraries[name] for name in names)) <= libraries[module]:
                    found.append((module, ast.unparse(node)))
        return found

    def with_one_importer(self) -> list[str]:
        importers = defaultdict(set)
        for module in self.trees:
            for node in ast.walk(self.trees[module]):
                for name in self.targets(node, module) - {module}:
                    importers[name].add(module)
        return sorted(name for name in self.trees if len(importers[name]) == 1 and name not in self.packages)

    def rows(self) -> dict[str, str]:
        repeated, cycles, hidden = self.repeated_classes(), self.cycles(), self.hidden_cycles()
        return {
            "files": str(len(self.texts)),
            "lines": str(self.lines()),
            "code lines": str(self.code_lines()),
            "lines a file": f"{self.lines() / max(len(self.texts), 1):.0f}",
            "class names in two files": str(len(repeated)),
            "cycles of modules": _sizes(cycles),
            "with imports in functions": _sizes(hidden),
            "imports inside functions": str(self.local_imports()),
            "but for libraries": str(len(self.hidden_imports())),
            "files with one importer": str(len(self.with_one_importer())),
        }


def _sizes(groups: list[list[str]]) -> str:
    return f"{len(groups)}" + (f" ({', '.join(str(len(group)) for group in groups)})" if groups else "")


def _code(text: str) -> set[int]:
    """Return the numbers of the lines that hold code.

    >>> sorted(_code("# why\\nx = 1\\n\\ndef f():\\n    'Say what.'\\n    return x\\n"))
    [2, 4, 6]
    """
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SKIPPED:
            lines |= {*range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(text)):
        if isinstance(
            node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ) and ast.get_docstring(node):
            lines -= {*range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)}
    return lines


def _running(tree: ast.AST, into_functions: bool) -> Iterator[ast.AST]:
    """Yield nodes that run when a module is imported, or also when it is used."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not into_functions:
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        yield node
        yield from _running(node, into_functions)


def _components(graph: dict[str, set[str]]) -> list[set[str]]:
    """Return the strongly connected components, by Kosaraju's two passes.

    >>> sorted(map(sorted, _components({"a": {"b"}, "b": {"a", "c"}, "c": set()})))
    [['a', 'b'], ['c']]
    """
    order, seen = [], set()

    def visit(start: str, edges: dict[str, set[str]], out: list[str]) -> None:
        stack = [(start, iter(sorted(edges[start])))]
        seen.add(start)
        while stack:
            node, rest = stack[-1]
            for following in rest:
                if following not in seen:
                    seen.add(following)
                    stack.append((following, iter(sorted(edges[following]))))
                    break
            else:
                stack.pop()
                out.append(node)

    for node in graph:
        if node not in seen:
            visit(node, graph, order)
    back: dict[str, set[str]] = {node: set() for node in graph}
    for node, following in graph.items():
        for other in following:
            back[other].add(node)
    seen.clear()
    groups = []
    for node in reversed(order):
        if node not in seen:
            found: list[str] = []
            visit(node, back, found)
            groups.append({*found})
    return groups


def main(*trees: str) -> None:
    houses = [House(Path(tree) / "src" / "hardmax") for tree in trees]
    columns = [house.rows() for house in houses]
    for name in columns[0]:
        print(f"{name:28}" + "".join(f"{column[name]:>28}" for column in columns))
    print()
    for tree, house in zip(trees, houses, strict=True):
        for group in house.cycles():
            print(f"{tree}: cycle of {', '.join(group)}")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("name one or two trees: python docs/_tools/house.py TREE [OTHER]")
    main(*sys.argv[1:])
