"""Every form in which the two datasets are handed out gives the same reviews; nothing broken passes."""

import bz2
import csv
import gzip
import io
import json
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import hardmax as hm

# Quotes, commas, a line break, an accent, an emoji, HTML.
GOOD = 'A "great", warm\nfilm: café ☕ <br /> 10/10'
BAD = "Dull; 'never' again\\no"
HUGE = "so " * 70_000 + "bad"  # beyond the csv module's own limit
REVIEWS = [(GOOD, 1), (BAD, -1), (HUGE, -1)]


def as_csv(head: list[str], cells: list[tuple[object, ...]], **options: object) -> bytes:
    stream = io.StringIO(newline="")
    csv.writer(stream, **options).writerows([head, *cells] if head else cells)  # type: ignore[arg-type]
    return stream.getvalue().encode()


def write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def kaggle() -> bytes:
    return as_csv(
        ["review", "sentiment"], [(text, "positive" if y > 0 else "negative") for text, y in REVIEWS]
    )


def read(path: Path, **options: object) -> list[tuple[str, int | None]]:
    return [tuple(review) for review in hm.data.read_reviews(path, **options)]  # type: ignore[arg-type]


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}


@pytest.mark.parametrize("ending", PACKERS)
def test_kaggle_csv_packed_or_not_whatever_its_name_says(tmp_path: Path, ending: str) -> None:
    limit = csv.field_size_limit()
    file = write(tmp_path / f"IMDB Dataset.csv{ending}", PACKERS[ending](kaggle()))
    reader = hm.data.read_reviews(file)
    assert [tuple(review) for review in reader] == REVIEWS
    assert reader.share == 1.0
    assert csv.field_size_limit() == limit
    assert hm.data.find_reviews(tmp_path, "imdb") == (file,)
    assert read(write(tmp_path / "no ending", PACKERS[ending](b"\xef\xbb\xbf" + kaggle()))) == REVIEWS


def stanford() -> dict[str, bytes]:
    files = {"aclImdb/README": b"no review", "aclImdb/train/unsup/0_0.txt": b"no label"}
    files |= {"aclImdb/imdb.vocab": b"the", "aclImdb/train/urls_pos.txt": b"no review"}
    return files | {
        "aclImdb/test/neg/0_2.txt": BAD.encode(),
        "aclImdb/train/neg/7_1.txt": HUGE.encode(),
        "aclImdb/train/pos/0_9.txt": GOOD.encode(),
    }


def tar_of(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def test_stanford_folder_and_archive(tmp_path: Path) -> None:
    archive = write(tmp_path / "aclImdb_v1.tar.gz", tar_of(stanford()))
    expected = [(BAD, -1), (HUGE, -1), (GOOD, 1)]
    assert hm.data.find_reviews(tmp_path, "imdb") == (archive,)
    assert read(archive) == expected
    for name, content in stanford().items():
        write(tmp_path / name, content)
    assert hm.data.find_reviews(tmp_path, "imdb") == (tmp_path / "aclImdb",)
    assert hm.data.find_reviews(tmp_path / "aclImdb", "imdb") == (tmp_path / "aclImdb",)
    reader = hm.data.read_reviews(tmp_path / "aclImdb")
    assert [tuple(review) for review in reader] == expected
    assert reader.share == 1.0


def test_files_of_a_folder_that_hold_no_reviews_are_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "aclImdb/train/pos/0_9.txt", b"a good film")
    write(tmp_path / "aclImdb/secret.bin", b"")
    opened = Path.open

    def refusing(path: Path, *arguments: object, **options: object) -> object:
        if path.name == "secret.bin":
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *arguments, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", refusing)
    assert read(tmp_path / "aclImdb") == [("a good film", 1)]


def test_parquet(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    folder = tmp_path / "plain_text"
    folder.mkdir()
    texts, labels = [text for text, _ in REVIEWS], [max(y, 0) for _, y in REVIEWS]
    pq.write_table(pa.table({"text": texts, "label": labels}), folder / "train-00000-of-00001.parquet")
    pq.write_table(pa.table({"text": texts, "label": labels}), folder / "test-00000-of-00001.parquet")
    pq.write_table(pa.table({"text": texts, "label": [-1] * 3}), folder / "unsupervised-0.parquet")
    found = hm.data.find_reviews(tmp_path, "imdb")
    assert [path.name[:5] for path in found] == ["train", "test-"]
    assert read(found[0]) == REVIEWS
    assert read(folder) == 2 * REVIEWS  # those without labels are left out
    with pytest.raises(ValueError, match="must hold reviews with labels, got none"):
        read(folder / "unsupervised-0.parquet")
    broken = write(tmp_path / "broken.parquet", b"PAR1 but not really")
    with pytest.raises(ValueError, match=r"broken\.parquet: not a readable Parquet file"):
        read(broken)


STARS = [(GOOD, 5), (BAD, 2), ("meh", 3), (HUGE, 1), ("fine", 4)]
SIGNED = [(GOOD, 1), (BAD, -1), ("meh", None), (HUGE, -1), ("fine", 1)]


def test_yelp_in_all_its_forms(tmp_path: Path) -> None:
    lines = [json.dumps({"review_id": "x", "stars": float(s), "text": text}) for text, s in STARS]
    table = "\n".join(lines).encode() + b"\n\n"
    others = {"yelp_academic_dataset_tip.json": b'{"text": "no stars"}\n', "terms.pdf": b"%PDF"}
    review_json = {"yelp_academic_dataset_review.json": table}
    files = {
        "json/yelp_academic_dataset_review.json": table,
        "tar/yelp_dataset.tar": gzip.decompress(tar_of(others | review_json)),
        "plain/yelp.csv": as_csv(["stars", "text", "cool"], [(s, text, 0) for text, s in STARS]),
        "hand/yelp_augpe_dev_5k.csv.xz": lzma.compress(
            as_csv(["text", "label1", "label2"], [(t, "Business", f"Review Stars: {s}.0") for t, s in STARS])
        ),
        "tabs/yelp.csv": as_csv(["stars", "text"], [(s, text) for text, s in STARS], delimiter="\t"),
    }
    for name, content in files.items():
        file = write(tmp_path / name, content)
        assert read(file) == SIGNED, name
        assert hm.data.find_reviews(file.parent, "yelp") == (file,)
    with zipfile.ZipFile(tmp_path / "archive.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("yelp_academic_dataset_review.json", table)
        archive.writestr("__MACOSX/._x.json", b"\x00")
    assert read(tmp_path / "archive.zip") == SIGNED


def test_yelp_review_full_has_no_header_and_escapes_its_line_breaks(tmp_path: Path) -> None:
    cells = [(str(s), text.replace("\n", "\\n")) for text, s in STARS]
    content = as_csv([], cells, quoting=csv.QUOTE_ALL)
    for name in ("train.csv", "test.csv", "readme.txt"):
        write(tmp_path / "yelp_review_full_csv" / name, content)
    (found,) = hm.data.find_reviews(tmp_path, "yelp")
    unescaped = [(text.replace("\\n", "\n"), y) for text, y in SIGNED]
    assert read(found) == 2 * unescaped
    assert read(write(tmp_path / "full.tgz", tar_of({"y/train.csv": content}))) == unescaped
    zero_based = as_csv(["text", "label"], [(text, s - 1) for text, s in STARS])
    assert read(write(tmp_path / "hub.csv", zero_based)) == SIGNED


def test_own_columns_and_own_labels(tmp_path: Path) -> None:
    file = write(
        tmp_path / "mine.csv",
        as_csv(["id", "Body", "mood"], [(1, "a", "Good"), (2, "b", ""), (3, "c", "bad")]),
    )
    with pytest.raises(ValueError, match=r"no column of text .*among 'id', 'Body', 'mood'; name it by text="):
        read(file)
    with pytest.raises(ValueError, match="label_map="):
        read(file, text="Body", label="mood")
    signs = {"good": 1, "BAD": -1}
    assert read(file, text="Body", label="mood", label_map=signs) == [("a", 1), ("b", None), ("c", -1)]
    with pytest.raises(ValueError, match="no column 'nope'"):
        read(file, text="nope", label="mood")
    with pytest.raises(ValueError, match="label_map must map labels"):
        read(file, label_map={"good": 2})
    signed = "text,label\r\nsehr schön,1\r\nnein,-1\r\nso so,0\r\n".encode()
    assert read(write(tmp_path / "signed.csv", signed)) == [("sehr schön", 1), ("nein", -1), ("so so", None)]
    # sorted by label: the first thousand say nothing of the rest
    for other, sign in ((0, -1), (-1, -1)):
        long = as_csv(["text", "label"], [("a", 1)] * 1500 + [("b", other)])
        assert read(write(tmp_path / "sorted.csv", long))[-2:] == [("a", 1), ("b", sign)]
    for early, late in ((0, -1), (1, 5)):
        long = as_csv(["text", "label"], [("a", early)] * 1500 + [("b", late)])
        with pytest.raises(
            ValueError, match=rf"line 1502: .*'{late}' makes the column .* ambiguous: the meaning of {early}"
        ):
            read(write(tmp_path / "turned.csv", long))
    with pytest.raises(ValueError, match="line 3: label_map must hold every label, it lacks '2'"):
        read(file, text="Body", label="id", label_map={1: 1, "3": -1})
    # pandas writes truth as words, and blank lines above a header are none of it
    truth = b"\n \ntext,label\na,True\nb,False\n"
    assert read(write(tmp_path / "truth.csv", truth)) == [("a", 1), ("b", -1)]
    with pytest.raises(ValueError, match="line 4 must have 2 columns"):
        read(write(tmp_path / "short.csv", b"\n\ntext,label\nb\n"))
    # three classes with the neutral one in the middle, four classes: no stars unless they are called so
    for classes in ("012", "123", "0123", "1234"):
        cells = [(f"t{k}", k) for k in classes]
        with pytest.raises(ValueError, match="whose meaning is not clear"):
            read(write(tmp_path / "classes.csv", as_csv(["text", "label"], cells)))
    few = write(tmp_path / "few.csv", as_csv(["text", "stars"], [("t1", 1), ("t4", 4)]))
    assert read(few) == [("t1", -1), ("t4", 1)]
    # 1 and 2 alone may be stars or classes: nobody guesses
    polar = as_csv([], [("1", "bad"), ("2", "good")])
    with pytest.raises(ValueError, match=r"polar\.csv: the column 'the first' must hold"):
        read(write(tmp_path / "polar.csv", polar))
    assert read(tmp_path / "polar.csv", label_map={1: -1, "2": 1}) == [("bad", -1), ("good", 1)]


BROKEN = {
    "latin.csv": ("text,label\nok,1\ncaf\xe9,0\n".encode("latin-1"), "line 3 must be in UTF-8, got byte"),
    "latin.json": (b'{"text":"a","label":1}\n{"text":"\xe9"}\n', "line 2 must be in UTF-8, got byte 0xe9"),
    "wide.csv": ("text,label\nok,1\n".encode("utf-16"), "must be in UTF-8, got UTF-16"),
    "short.csv": (b"text,label\na,1\nb\n", "line 3 must have 2 columns, got 1"),
    "open.csv": (b'text,label\na,1\n"b,1\nc,0\n', "not a row of CSV .* quote left open"),
    "label.csv": (b"text,stars\n" + b"a,1\n" * 1500 + b"b,6\n", "line 1502: .* 1 to 5 stars; it holds 1, 6"),
    "object.json": (b'{"text": "a", "stars": 5}\n{"text": \n', "line 2 must be one JSON object"),
    "list.json": (b'[{"text": "a", "stars": 5}]', "line 1 must be one JSON object, got a list"),
    "pretty.json": (b'[\n{"text": "a", "stars": 5}\n]', "line 1 .*got a list; write JSON lines"),
    "bare.csv": (b"good film,1\nbad film,0\n", "line 1: no column of text .* a first line of column names"),
    "null.json": (b'{"text": null, "stars": 5}', "line 1 must have a text 'text', got None"),
    "empty.csv": (b"", "with a column of texts and one of labels, got nothing"),
    "cut.csv.gz": (gzip.compress(kaggle() * 50)[:2000], "is damaged or cut short"),
    "cut.csv.xz": (lzma.compress(kaggle())[:-20], "is damaged or cut short"),
    "cut.tar.gz": (tar_of(stanford())[:-300], "is damaged or cut short"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused_by_name_and_line(tmp_path: Path, name: str) -> None:
    content, message = BROKEN[name]
    file = write(tmp_path / name, content)
    with pytest.raises(ValueError, match=message) as caught:
        read(file)
    assert str(file) in str(caught.value)


def test_what_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"lakshmi25npathi.*ai\.stanford\.edu.*IMDB Dataset\.csv, .*aclImdb"):
        hm.data.find_reviews(tmp_path, "imdb")
    with pytest.raises(ValueError, match=r"yelp-dataset/yelp-dataset.*yelp_academic_dataset_review\.json"):
        hm.data.find_reviews(tmp_path, "yelp")
    with pytest.raises(ValueError, match="kind must be one of imdb, yelp"):
        hm.data.find_reviews(tmp_path, "amazon")
    with pytest.raises(ValueError, match="there is no folder"):
        hm.data.find_reviews(tmp_path / "no", "imdb")
    with pytest.raises(FileNotFoundError, match="No such file"):
        hm.data.read_reviews(tmp_path / "no.csv")
    with pytest.raises(ValueError, match="must hold reviews with labels, got none"):
        read(tmp_path)
    # a field that never ends is refused before it fills the memory
    monkeypatch.setattr("hardmax.data.reviews.LONGEST", 1000)
    with pytest.raises(ValueError, match=r"line 5 must be at most .*; is a quote"):
        read(write(tmp_path / "endless.csv", kaggle()))


def test_real_files(shared_data: Path) -> None:
    (imdb,) = hm.data.find_reviews(shared_data, "imdb")
    reader = hm.data.read_reviews(imdb)
    first = next(reader)
    assert first.label == 1
    assert first.text.startswith("Bromwell High is a cartoon comedy.")
    assert 0 < reader.share < 0.2
    labels = [
        r.label for path in hm.data.find_reviews(shared_data, "yelp") for r in hm.data.read_reviews(path)
    ]
    assert (labels.count(1), labels.count(-1), labels.count(None)) == (13476, 4002, 2522)


@pytest.mark.parametrize(
    "pack, name", [(bz2.compress, "x.csv.bz2"), (gzip.compress, "x.jsonl.gz"), (lzma.compress, "x.csv.xz")]
)
def test_a_line_that_unpacks_without_end_is_never_held(tmp_path, monkeypatch, pack, name):
    monkeypatch.setattr("hardmax.data.reviews.LONGEST", 1 << 16)
    start = b'{"text": "' if "json" in name else b"text,label\n"
    (tmp_path / name).write_bytes(pack(start + b"x" * (1 << 20)))
    with pytest.raises(ValueError, match=r"line [12] must be at most 0.0625 MiB, got a longer one"):
        list(hm.data.read_reviews(tmp_path / name))


def test_tables_and_rows_have_a_largest_size(tmp_path, monkeypatch):
    file = tmp_path / "x.csv"
    file.write_text("text,label\n" + "good,1\n" * 1000)
    monkeypatch.setattr("hardmax.data.reviews.LARGEST", 1000)
    with pytest.raises(ValueError, match="once unpacked, got more"):
        list(hm.data.read_reviews(file))
    monkeypatch.setattr("hardmax.data.reviews.LONGEST_ROW", 100)
    file.write_text('text,label\n"' + "never closed\n" * 30)
    with pytest.raises(ValueError, match="a quote left open"):
        list(hm.data.read_reviews(file))


def test_json_lines_nested_beyond_reason(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"text": ' + "[" * 100_000 + "\n")
    with pytest.raises(
        ValueError, match=r"line 1 must be one JSON object, got none .it is nested too deeply"
    ):
        list(hm.data.read_reviews(tmp_path / "x.jsonl"))
