"""Find words that make readers stumble. Exit code 1 if there is a hit.

    python docs/_tools/words.py            # pages, tutorials, docstrings and messages of the source
    python docs/_tools/words.py --count    # hits by word
    python docs/_tools/words.py --names    # variables named by a participle, such as found

What must keep a word, such as the name of a file, is in ALLOWED. Code in pages is not read. Of source files,
comments and strings with a space are; strings without one are keys.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]

# pattern -> what to write
WORDS = {
    r"(?<!\bthere )\b(is|are|was|were|be) no (?!longer\b|more\b|less\b|fewer\b|greater\b|larger\b|smaller\b"
    r"|worse\b|wider\b|better\b|shorter\b|other\b|one\b|matter\b)": "is not a",
    r"\banew\b": "again, recompute",
    r"\bfor ever\b": "forever",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\bof (one's|your|its|their) own\b(?! [a-z])": "custom, separate, your own",
    r"\bof yours\b": "your",
    r"\bso many\b": "this many, up to",
    r"\bbeside\b": "next to, compared with, in addition to",
    r"\bfor want of\b": "for lack of",
    r"\b(says?|told|tells?|refused?|refuses|errors?)\b.{0,30}\bin (a|one) sentence\b": "with a clear message",
    r"\bstands? (in(?! for\b)|at|there|beside|next|on|behind|several)\b": "is, occurs, appears",
    r"\bverbs\b": "functions",
    r"\b(is|are) said to\b": "(state it)",
    r"\b(optim|normal|initial|real|regular|minim|maxim|summar|general|penal|quant|final|organ|recogn|factor|vector"
    r"|parametr|equal|visual|stabil|local|central|categor)is(e|es|ed|ing|ation|ations|er|ers)\b": "-ize",
    r"\b(neighbour|behaviour|colour|favour)": "-or",
    r"\b(label|travel|cancel|model|signal)l(ed|ing)\b": "one l",
    r"\b(centre|centres|metre|metres|grey|artefact|artefacts|catalogue|licence)\b": "American spelling",
}
ALLOWED = (
    re.compile(r"D-FIG-OPTIMISERS", re.IGNORECASE),
    re.compile(r"^\s*[a-z-]+ \| "),  # names of claims, which records keep
    re.compile(r"--catalogue"),
    re.compile(r"read_labelled|Labelled\b"),
    re.compile(r"1 - cos( to p_mm)? beside S"),  # names of measured values
    # names of conditions, which JSON keeps
    re.compile(r"p beside S has outgrown|a swing can be seen beside|neighbours? (scores?|competes)"),
    re.compile(r"beside wide"),  # classes of a page
)

# As names of variables these make a reader remember what was found; a noun says it.
PARTICIPLES = re.compile(
    "apart|asked|drawn|each|found|given|held|kept|known|left|lost|made|met|named|own|said|seen|taken|told|torn"
)


def participles(source: Path) -> Counter[tuple[str, str]]:
    """Count variables and parameters that are named by a participle, by package and name.

    A name counts once in each function that binds it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "a.py").write_text("def f(each):\\n    found = [each]\\n    found = x = 1\\n")
    ...     sorted(participles(Path(folder)).elements())
    [('a.py', 'each'), ('a.py', 'found')]
    """
    counts: Counter[tuple[str, str]] = Counter()
    for path in sorted(source.rglob("*.py")):
        package = path.relative_to(source).parts[0]
        waiting: list[tuple[ast.AST, set[str]]] = [(ast.parse(path.read_text(encoding="utf-8")), set())]
        scopes = [waiting[0][1]]
        while waiting:
            node, names = waiting.pop()
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                names = set()
                scopes.append(names)
            elif isinstance(node, ast.arg):
                names.add(node.arg)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            waiting += [(child, names) for child in ast.iter_child_nodes(node)]
        for names in scopes:
            counts.update((package, name) for name in names if PARTICIPLES.fullmatch(name))
    return counts


def pages() -> Iterator[Path]:
    """Yield the pages that people read, the tutorials, and the scripts of the playground."""
    yield from sorted(ROOT.glob("*.md"))
    yield from sorted(path for path in (ROOT / "docs").rglob("*.md") if path.name != "changelog.md")
    yield from sorted((ROOT / "examples").rglob("*.py"))
    yield from sorted((ROOT / "src").rglob("*.js"))


def page_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of a page without code."""
    fenced = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith("    "):
            yield number, re.sub(r"`[^`]*`|\]\([^)]*\)", " ", line)


def source_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of strings and comments of a source file, without examples."""
    text = path.read_text(encoding="utf-8")
    middle = {getattr(tokenize, name, None) for name in ("FSTRING_MIDDLE", "TSTRING_MIDDLE")}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.STRING and " " not in token.string:
            continue  # a key, a name of a file or a color
        if token.type in (tokenize.STRING, tokenize.COMMENT) or token.type in middle:
            for k, line in enumerate(token.string.splitlines()):
                if not line.lstrip().startswith((">>>", "...")):
                    yield token.start[0] + k, re.sub(r"`[^`]*`|\{[^{}]*\}", " ", line)


def script_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of a script in JavaScript."""
    yield from enumerate(path.read_text(encoding="utf-8").splitlines(), 1)


def hits(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line, word and advice of every hit in a file."""
    lines = {".py": source_lines, ".js": script_lines}.get(path.suffix, page_lines)(path)
    for number, line in lines:
        for allowed in ALLOWED:
            line = allowed.sub(" ", line)
        for pattern, advice in WORDS.items():
            for match in re.finditer(pattern, line, re.IGNORECASE):
                yield number, match.group().strip(), advice


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", action="store_true", help="print hits by word and by folder")
    parser.add_argument("--names", action="store_true", help="count variables named by participles")
    options = parser.parse_args()
    if options.names:
        counts = participles(ROOT / "src" / "hardmax")
        totals: Counter[str] = Counter()
        for (package, _), count in counts.items():
            totals[package] += count
        for package, total in totals.most_common():
            names = ", ".join(
                f"{name} {count}" for (other, name), count in sorted(counts.items()) if other == package
            )
            print(f"{total:6}  {package}: {names}")
        print()
        print(f"{counts.total()} names")
        return 0
    files = [*pages(), *sorted((ROOT / "src").rglob("*.py"))]
    all_hits = [(path.relative_to(ROOT), *hit) for path in files if path.exists() for hit in hits(path)]
    if options.count:
        for counts in (
            Counter(word.lower() for _, _, word, _ in all_hits),
            Counter(
                path.parts[0] if path.parts[0] != "src" else "/".join(path.parts[1:3])
                for path, *_ in all_hits
            ),
        ):
            for name, count in counts.most_common(40):
                print(f"{count:6}  {name}")
            print()
    else:
        for path, number, word, advice in all_hits:
            print(f"{path}:{number}: {word!r}; write: {advice}")
    print(f"{len(all_hits)} hits in {len({path for path, *_ in all_hits})} files")
    return 1 if all_hits else 0


if __name__ == "__main__":
    sys.exit(main())
