"""The files of the two review datasets of paper A, under the names in which they are handed out."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

_PACKED = ("", ".gz", ".bz2", ".xz", ".zip")

# In the order of preference; one entry is one download, whose files belong together.
_NAMES: dict[str, tuple[tuple[str, ...], ...]] = {
    "imdb": (
        ("IMDB Dataset.csv",),
        ("imdb_50k.csv",),
        ("aclImdb",),
        ("aclImdb_v1.tar",),
        ("plain_text/train-*.parquet", "plain_text/test-*.parquet"),
        ("imdb/train-*.parquet", "imdb/test-*.parquet"),
    ),
    "yelp": (
        ("yelp_academic_dataset_review.json",),
        ("yelp_dataset.tar",),
        ("yelp_review_full_csv",),
        ("yelp_review_full_csv.tar",),
        ("yelp_review_full_csv.tgz",),
        ("yelp.csv",),
        ("yelp_10k.csv", "yelp_augpe_*.csv"),
    ),
}
_ORIGIN = {
    "imdb": "the Kaggle dataset lakshmi25npathi/imdb-dataset-of-50k-movie-reviews (kaggle.com) or from "
    "ai.stanford.edu/~amaas/data/sentiment",
    "yelp": "the Kaggle dataset yelp-dataset/yelp-dataset (kaggle.com)",
}


def find_reviews(folder: str | PathLike[str], kind: str) -> tuple[Path, ...]:
    """The files of "imdb" or "yelp" in a folder, packed or not; a ValueError says where to get them.

    >>> import pathlib, tempfile
    >>> import hardmax as hm
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pathlib.Path(folder, "IMDB Dataset.csv").touch()
    ...     [path.name for path in hm.data.find_reviews(folder, "imdb")]
    ['IMDB Dataset.csv']
    """
    if kind not in _NAMES:
        raise ValueError(f"kind must be one of {', '.join(_NAMES)}, got {kind!r}")
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"folder: there is no folder {folder}; make it and put the {kind} files there")
    for names in _NAMES[kind]:
        found = tuple(path for name in names for path in _present(folder, name))
        if found:
            return found
    if kind == "imdb" and (folder / "train" / "pos").is_dir():
        return (folder,)
    known = ", ".join(name for names in _NAMES[kind] for name in names)
    raise ValueError(
        f"no {kind} reviews in {folder}: get them as {_ORIGIN[kind]}, and put the file there under "
        f"one of the names {known}, packed ({', '.join(_PACKED[1:])}) or not"
    )


def _present(folder: Path, name: str) -> list[Path]:
    """The files of that name, each in the first of its packings that is there."""
    found: dict[str, Path] = {}
    for ending in _PACKED:
        for path in sorted(folder.glob(name + ending)):
            found.setdefault(str(path).removesuffix(ending), path)
    return list(found.values())
