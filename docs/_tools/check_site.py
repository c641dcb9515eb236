"""Look at the built site as a reader without network would: every link leads somewhere, nothing is fetched.

python docs/_tools/check_site.py build/docs
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from names import homes


class Page(HTMLParser):
    """What a page offers (ids), what it leads to (links) and what a browser loads for it (parts)."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.parts: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect ids and addresses."""
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") != "canonical":
            self.parts.append(given.get("href", ""))
        elif "src" in given:
            self.parts.append(given["src"])


def complaints(site: Path) -> list[str]:
    """A sentence for each link that leads nowhere, each part from elsewhere, each name without an entry."""
    # Parts such as the exported playground are loaded; they are not pages of this site.
    pages = {path.resolve(): Page(path) for path in site.rglob("*.html") if "_static" not in path.parts}
    found = []
    for path, page in pages.items():
        for address in page.links + page.parts:
            where = urlsplit(address)
            if where.scheme or where.netloc:
                if address in page.parts and where.scheme != "data":
                    found.append(f"{path.name} loads {address}")
                continue
            target = (path.parent / unquote(where.path)).resolve() if where.path else path
            if not target.exists():
                found.append(f"{path.name} leads to {address}, which is not there")
            elif target in pages and where.fragment and unquote(where.fragment) not in pages[target].ids:
                found.append(f"{path.name} leads to {address}, which has no such place")
    ids = {id.removeprefix("module-") for page in pages.values() for id in page.ids}
    return found + [f"{name} has no entry in the API reference" for name in homes() if name not in ids]


if __name__ == "__main__":
    wrong = complaints(Path(sys.argv[1]))
    print("\n".join(wrong), end="\n" if wrong else "", file=sys.stderr)
    sys.exit(bool(wrong))
