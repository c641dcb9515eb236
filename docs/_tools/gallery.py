"""Write docs/research/gallery.md and its pictures from what `hardmax reproduce` left in a folder.

hardmax reproduce
python docs/_tools/gallery.py results
"""

import json
import sys
from pathlib import Path

from PIL import Image

from hardmax.papers.figures.figure import recipes

DOCS = Path(__file__).parents[1]
DOTS = 160  # to the inch of print: a figure of one column fills three quarters of the site's

HEAD = """# Gallery

Every figure that `hardmax reproduce` makes, at quick scale and without real data: figures that train on \
reviews or images use stand-in data here. [Reproduce the papers' figures](../how-to/reproduce-figures.md) \
explains the command. `python docs/_tools/gallery.py results` writes this page from the folder of a run.
"""

CHAPTERS = {
    "B": "Max-margin token selection (paper B)",
    "C": "Next-token prediction (paper C)",
    "A": "Trained embeddings (paper A)",
    "D": "Norms and optimizers (part D)",
}


def shrink(picture: Path, to: Path, inches: float) -> None:
    """Write a copy of a print-size picture for the screen, in full color."""
    image = Image.open(picture).convert("RGB")
    width = round(inches * DOTS)
    image = image.resize((width, round(image.height * width / image.width)), Image.Resampling.LANCZOS)
    image.save(to, optimize=True)


def stand_in(record: Path) -> str:
    """Return a sentence for the caption of a figure whose record in the folder has stand-in data."""
    claims = json.loads(record.read_text(encoding="utf-8"))["claims"]
    return ". *Stand-in data, not the paper's own.*" if any(claim["stand_in"] for claim in claims) else ""


def write(results: Path) -> None:
    """Copy every figure of the folder and write the page; a figure that is not there stops it."""
    folder = DOCS / "img" / "figures"
    folder.mkdir(exist_ok=True)
    records = {id: results / f"{id}.json" for id in recipes() if (results / f"{id}.json").exists()}
    missing = [id for id in recipes() if id not in records]
    if missing:
        raise SystemExit(f"not in {results}: {' '.join(missing)}; run: hardmax reproduce --out {results}")
    paper_size = [id for id, record in records.items() if json.loads(record.read_text())["scale"] != "quick"]
    if paper_size:
        raise SystemExit(
            f"not at quick scale: {' '.join(paper_size)}; run: hardmax reproduce --out {results}"
        )
    page = [HEAD]
    for paper, title in CHAPTERS.items():
        page.append(f"## {title}\n")
        for id, recipe in recipes().items():
            if id.startswith(paper):
                shrink(results / f"{id}.png", folder / f"{id}.png", recipe.size[0])
                anchor = f'<a id="{id.lower()}"></a>'
                caption = f"**{id}** {recipe.title}{stand_in(records[id])}"
                page.append(f"{anchor}\n\n{caption}\n\n![{id}](../img/figures/{id}.png)\n")
    (DOCS / "research" / "gallery.md").write_text("\n".join(page), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python docs/_tools/gallery.py RESULTS, the folder of `hardmax reproduce`")
    write(Path(sys.argv[1]))
