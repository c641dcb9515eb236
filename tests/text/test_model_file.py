"""One safe file: what comes back predicts the same bits, and what is damaged says so."""

import json
import pickle

import joblib
import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer

from hardmax.text import AttentionClassifier, model_file


@pytest.mark.parametrize(
    "settings, classes",
    [
        ({"ngram_range": (1, 3)}, 2),
        ({"ngram_range": (2, 2), "top_k": 5, "min_df": 1}, 2),
        ({"solver": "sgd"}, 3),
    ],
)
def test_there_and_back(settings, classes, tmp_path, draw):
    texts, labels = draw(200, 0, classes)
    names = np.array(["no", "yes", "maybe"])[labels]
    model = AttentionClassifier(**settings).fit(texts, names)
    model.save(tmp_path / "model.npz")
    again = AttentionClassifier.load(tmp_path / "model.npz")
    assert np.array_equal(again.decision_function(texts), model.decision_function(texts))
    assert (again.predict(texts) == model.predict(texts)).all()
    assert again.get_params() == model.get_params()
    assert again.top_tokens(5).words == model.top_tokens(5).words
    assert again.explain(texts[0]).parts == model.explain(texts[0]).parts
    assert "not part of the file" in str(again.statistics_.assumption_4.witness)


def test_counts_and_pickles_too(reviews, tmp_path):
    model = AttentionClassifier().fit(np.eye(4), [2.0, 7.0, 2.0, 7.0])
    model.save(tmp_path / "model.npz")
    assert AttentionClassifier.load(tmp_path / "model.npz").predict(np.eye(4)).tolist() == [
        2.0,
        7.0,
        2.0,
        7.0,
    ]
    (texts, labels), (more, _) = reviews
    model = AttentionClassifier(vectorizer=CountVectorizer()).fit(texts, labels)
    with pytest.raises(ValueError, match=r"vectorizer must be an NgramVectorizer to be saved .* use joblib"):
        model.save(tmp_path / "other.npz")
    joblib.dump(model, tmp_path / "other.joblib")
    assert (joblib.load(tmp_path / "other.joblib").predict(more) == model.predict(more)).all()


@pytest.fixture
def saved(tmp_path, draw):
    AttentionClassifier().fit(*draw(60, 0)).save(tmp_path / "model.npz")
    return tmp_path / "model.npz"


def test_damage_is_noticed(saved):
    """One byte of any array, or of the head, is enough; a torn file too."""
    content = bytearray(saved.read_bytes())
    places, noticed = range(200, len(content) - 200, len(content) // 23), 0
    for at in places:
        damaged = content.copy()
        damaged[at] ^= 1
        saved.write_bytes(damaged)
        try:
            AttentionClassifier.load(saved)
            noticed += b"PK" in damaged[at - 60 : at + 60]  # a byte that no reader looks at, such as a date
        except ValueError:
            noticed += 1
    assert noticed == len(places)
    saved.write_bytes(content[: len(content) // 2])
    with pytest.raises(
        ValueError, match=r"must be a model that AttentionClassifier\.save wrote, got another"
    ):
        AttentionClassifier.load(saved)


def rewritten(saved, change):
    arrays = dict(np.load(saved))
    head = json.loads(arrays["head"].tobytes())
    change(head, arrays)
    arrays["head"] = np.frombuffer(json.dumps(head).encode(), np.uint8)
    own = {name: each for name, each in arrays.items() if name not in ("head", "digest")}
    arrays["digest"] = np.frombuffer(model_file._digest(arrays["head"], own), np.uint8)
    np.savez(saved, **arrays)


def test_another_version_is_named(saved):
    rewritten(saved, lambda head, arrays: head.update(format="hardmax.text-model/9", version="7.0"))
    with pytest.raises(
        ValueError, match=r"got hardmax\.text-model/9, of hardmax 7\.0; load it with that version"
    ):
        AttentionClassifier.load(saved)


@pytest.mark.parametrize(
    "change",
    [
        lambda head, arrays: arrays.update(attention=arrays["attention"][:-1]),
        lambda head, arrays: arrays.update(values=arrays["values"] * np.nan),
        lambda head, arrays: arrays.update(keys1=arrays["keys1"] | np.uint64(0xFFFFFFFF)),
        lambda head, arrays: head.update(words=head["words"][:-1]),
        lambda head, arrays: head.update(params={**head["params"], "colour": "red"}),
        lambda head, arrays: head.pop("classes"),
    ],
)
def test_what_was_tampered_with_is_refused(saved, change):
    rewritten(saved, change)
    with pytest.raises(ValueError, match="must be a model that AttentionClassifier"):
        AttentionClassifier.load(saved)


def test_no_pickle_is_opened(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (print, ("boom",))

    (tmp_path / "bomb.npz").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ValueError, match="got another file"):
        AttentionClassifier.load(tmp_path / "bomb.npz")


HOSTILE = [
    lambda head, arrays: head.update(kind="<U500000000"),
    lambda head, arrays: head.update(kind="S500000000"),
    lambda head, arrays: head.update(kind="V500000000"),
    lambda head, arrays: head.update(kind="(100000,10000)f8"),
    lambda head, arrays: head.update(classes={"a": 1}),
    lambda head, arrays: head["vectorizer"].update(dtype="<U500000000"),
    lambda head, arrays: arrays.update(attention=arrays["attention"] + 1e5),
    lambda head, arrays: arrays.update(values=np.full_like(arrays["values"], 1e300)),
]


def test_hostile_models_take_little_memory(saved, confined, tmp_path):
    good, names = saved.read_bytes(), []
    for k, change in enumerate(HOSTILE):
        saved.write_bytes(good)
        rewritten(saved, change)
        names.append(str(saved.rename(tmp_path / f"hostile{k}.npz")))
    code = f"""
for name in {names!r}:
    try:
        AttentionClassifier.load(name)
    except ValueError as error:
        print(error)
"""
    setup = "from hardmax.text.classifier import AttentionClassifier"
    said = confined(code, setup).splitlines()
    assert len(said) == len(HOSTILE)
    assert all("must be a model that AttentionClassifier.save wrote" in each for each in said)


def test_labels_keep_their_type(saved, draw, tmp_path):
    texts, labels = draw(60, 0)
    for names in (["no", "yes"], np.array(["no", "yes"], dtype="<U30"), [True, False], [2, 1], ["nó", "ja"]):
        model = AttentionClassifier().fit(texts, np.array(names)[labels])
        model.save(tmp_path / "own.npz")
        assert AttentionClassifier.load(tmp_path / "own.npz").classes_.dtype == model.classes_.dtype
