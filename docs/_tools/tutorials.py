"""Sphinx extension: the order in which a newcomer reads the tutorials, and notebooks with outputs.

sphinx-gallery runs each tutorial for its page, but writes the notebook without outputs. This extension copies
the outputs of the page into the notebook, so that nothing runs twice.
"""

import base64
import json
import re
import textwrap
import zipfile
from pathlib import Path
from typing import Any

ORDER = (
    "where_does_gradient_descent_go.py",
    "which_optimizer_does_what.py",
    "check_a_conjecture.py",
    "read_a_theorem_check.py",
    "is_my_dataset_realizable.py",
    "what_did_the_embeddings_learn.py",
    "which_words_decide.py",
    "is_my_attention_accurate.py",
)

PART = re.compile(r"^\.\. GENERATED FROM PYTHON SOURCE LINES .*$", re.MULTILINE)
CODE = "\n.. code-block:: Python\n"
PRINTED = re.compile(r"^ \.\. code-block:: none\n\n((?: {4}.*\n|\n)+)", re.MULTILINE)
PICTURE = re.compile(r"image-sg:: (/\S+\.png)")


def place(file: str) -> int:
    """Return the position of a tutorial; one that is not listed stops the site.

    >>> place("check_a_conjecture.py")
    2
    """
    return ORDER.index(file)


def outputs(part: str, folder: Path) -> list[dict[str, Any]]:
    """Return the outputs of a part of a page as those of a notebook cell; pictures are files below a folder.

    >>> outputs(".. code-block:: Python\\n\\n    print(2)\\n\\n .. code-block:: none\\n\\n    2\\n", Path())
    [{'output_type': 'stream', 'name': 'stdout', 'text': ['2\\n']}]
    """
    cells: list[dict[str, Any]] = []
    for printed in PRINTED.findall(part):
        text = textwrap.dedent(printed).strip("\n") + "\n"
        cells.append({"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)})
    for name in PICTURE.findall(part):
        picture = base64.b64encode((folder / name.lstrip("/")).read_bytes()).decode("ascii")
        data = {"image/png": picture, "text/plain": ["<Figure>"]}
        cells.append({"output_type": "display_data", "data": data, "metadata": {}})
    return cells


def fill(notebook: dict[str, Any], page: str, folder: Path) -> None:
    """Copy the outputs of a page into the code cells of its notebook."""
    parts = [part for part in PART.split(page) if CODE in part]
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, (cell, part) in enumerate(zip(cells, parts, strict=True), 1):
        cell["execution_count"] = number
        cell["outputs"] = outputs(part, folder)


def setup(app: Any) -> dict[str, bool]:
    """Fill the notebooks once sphinx-gallery, which has the usual priority of 500, has written them."""

    def written(app: Any) -> None:
        folder = Path(app.srcdir)
        for file in sorted((folder / "tutorials").glob("*.ipynb")):
            notebook = json.loads(file.read_text(encoding="utf-8"))
            fill(notebook, file.with_suffix(".rst").read_text(encoding="utf-8"), folder)
            file.write_text(json.dumps(notebook, indent=1) + "\n", encoding="utf-8")
            with zipfile.ZipFile(file.with_suffix(".zip"), "w", zipfile.ZIP_DEFLATED) as archive:
                for each in (file.with_suffix(".py"), file):
                    archive.write(each, each.name)

    app.connect("builder-inited", written, priority=900)
    return {"parallel_read_safe": True}
