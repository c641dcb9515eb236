"""B-FIG-6 and B-FIG-7: on surrogate images without PyTorch, and a vision transformer on images."""

import numpy as np
import pytest

from hardmax._lib.extras import install
from hardmax.papers.figures.figure import Setting, make, recipes
from hardmax.papers.figures.reproduce import load_tables, save
from hardmax.papers.figures.tables import part
from hardmax.papers.max_margin import vision, vision_course

IDS = ("B-FIG-6", "B-FIG-7")


@pytest.mark.parametrize("id", IDS)
def test_claims_hold_and_the_picture_comes_from_the_tables(id, computed, tmp_path):
    found = computed(id)
    assert found.failed == []
    saved = save(found, tmp_path)
    tables = load_tables(saved[0])
    from hardmax._lib import notebook

    canvas = notebook.picture(found.recipe.size)
    found.recipe.draw(tables, canvas)
    assert len(canvas.axes) >= 2
    assert any("no folder of real data was given" in note for note in found.notes)


def test_both_starts_end_hard_and_only_one_norm_grows(computed):
    courses = computed("B-FIG-7").tables["courses"]
    small, xavier = (part(courses, "run", run) for run in (vision.NORMAL, vision.XAVIER))
    # measured with seeds 0, 1, 2: 0.017 with growth 16, 13, 15, and 0.022, 0.021, 0.024 with 1.7, 1.5, 1.6
    for rows, low, high in ((small, 10.0, 20.0), (xavier, 1.3, 2.2)):
        assert rows["sparsity"][0] > 0.95
        assert rows["sparsity"][-1] < 0.03
        assert low < rows["norm"][-1] / rows["norm"][0] < high
    assert small["accuracy"][-1] == 1.0


def test_the_surrogates_gradient_is_the_loss_derivative():
    chance = np.random.default_rng(3)
    patches, classes = chance.normal(size=(5, 64, 48)), chance.integers(0, 4, size=5)
    x = [chance.normal(size=shape) / 5 for shape in ((4, 12, 48), (4, 12, 48), (4, 4, 48))]
    cls = chance.normal(size=48)

    def loss():
        _, mixed = vision._attend(x, cls, patches)
        out = np.einsum("hcd,nhd->nc", x[2], mixed)
        return float(np.mean(np.log(np.exp(out).sum(axis=1)) - out[np.arange(5), classes]))

    for array, gradient in zip(x, vision._gradients(x, cls, patches, classes), strict=True):
        direction = chance.normal(size=array.shape)
        step = 1e-6
        array += step * direction
        above = loss()
        array -= 2 * step * direction
        below = loss()
        array += step * direction
        assert (above - below) / (2 * step) == pytest.approx((gradient * direction).sum(), rel=1e-7)


def test_soft_sparsity_of_heads_and_of_their_mean():
    """Two heads on different patches: the mean map has twice their nnz; the weight on [CLS] is dropped."""
    weights = np.zeros((1, 2, 5))
    weights[0, :, 0] = 0.5
    weights[0, 0, 1] = weights[0, 1, 3] = 0.5
    sparsity, heads, with_self, maps = vision_course.measured(weights, own=True)
    assert (sparsity, heads) == (2 / 4, 1 / 4)
    assert with_self == pytest.approx(1 / (0.25 + 2 * 0.0625) / 5)
    assert maps.tolist() == [[0.5, 0.0, 0.5, 0.0]]


def test_a_start_that_never_moves_fails_its_claims(monkeypatch):
    monkeypatch.setattr(vision, "RATE", 1e-9)
    found = recipes()["B-FIG-7"].compute(Setting())
    failed = {claim.id for claim in found.claims if not claim.holds}
    assert {"B-FIG-7.end", "B-FIG-7.growth", "B-FIG-7.xavier-end"} <= failed


def test_without_torch_images_are_replaced_and_the_remedy_told(tmp_path, monkeypatch):
    monkeypatch.setattr(vision, "find_spec", lambda name: None)
    figure = make(recipes()["B-FIG-6"], Setting(data=tmp_path))
    assert any(install("torch") in note for note in figure.notes)
    assert figure.failed == []


@pytest.mark.extra
@pytest.mark.slow
def test_the_vision_transformer_on_images_of_a_folder(tmp_path, monkeypatch):
    """Ten classes of colored squares in the binary format, a tiny protocol; figures share a training."""
    pytest.importorskip("torch", reason="the vision transformer needs PyTorch: make test-extras")
    from hardmax.papers.max_margin import vision_training

    chance = np.random.default_rng(0)
    for name in ("data_batch_1", "test_batch"):
        labels = chance.integers(0, 10, size=300)
        images = chance.integers(0, 60, size=(300, 3, 32, 32)).astype(np.uint8)
        corner = 8 * chance.integers(0, 4, size=(300, 2))
        for image, label, (x, y) in zip(images, labels, corner, strict=True):
            image[label % 3, x : x + 8, y : y + 8] = 255 - 20 * label
        rows = np.column_stack([labels.astype(np.uint8), images.reshape(300, -1)])
        (tmp_path / f"{name}.bin").write_bytes(rows.tobytes())
    tiny = vision_training.Protocol(train=300, test=100, epochs=2, patch=8, dim=16, heads=2, batch=50)
    monkeypatch.setattr(vision_training, "SMALL", tiny)
    trained = []
    train = vision_training.train
    monkeypatch.setattr(vision_training, "train", lambda *a: trained.append(a[2:4]) or train(*a))
    heard = []
    setting = Setting(data=tmp_path, progress=lambda share, what="": heard.append(share))
    six, seven = (make(recipes()[id], setting) for id in IDS)
    assert sorted(trained) == [("normal", "exact"), ("normal", "torch"), ("xavier", "exact")]
    assert heard[-1] == 1.0
    assert len(six.tables["maps"]["weight"]) == 3 * 3 * 16
    runs = {run: part(seven.tables["courses"], "run", run) for run in (vision.NORMAL, vision.THEIRS)}
    # attention is soft: both backwards make the same steps, to the rounding of float32
    for column in ("norm", "sparsity"):
        np.testing.assert_allclose(runs[vision.NORMAL][column], runs[vision.THEIRS][column], rtol=1e-3)
    course = runs[vision.NORMAL]
    np.testing.assert_allclose(six.tables["course"]["norm"], course["norm"])
    assert any("CIFAR-10, binary version" in note for note in seven.notes)
    assert {claim.id for claim in seven.claims} >= {"B-FIG-7.torch-first", "B-FIG-7.xavier-growth"}
    assert six.plot().axes
    assert len(seven.plot().axes) == 6


@pytest.mark.extra
def test_norms_of_the_last_layer_in_both_readings():
    torch = pytest.importorskip("torch", reason="the vision transformer needs PyTorch: make test-extras")
    from hardmax.papers.max_margin.vision_training import _look
    from hardmax.torch import VisionTransformer

    model = VisionTransformer(dim=8, depth=2, heads=2, patch=16)
    images = torch.randn(4, 3, 32, 32)
    sparsity, _, _, norm, head_norm, _, maps = _look(model, images, torch.zeros(4, dtype=torch.long))
    attend = model.blocks[-1].attend
    Q, K = (x.weight.detach().double().numpy() for x in (attend.query, attend.key))
    assert norm == pytest.approx(np.linalg.norm(Q.T @ K), rel=1e-12)
    each = [np.linalg.norm(Q[h : h + 4].T @ K[h : h + 4]) for h in (0, 4)]
    assert head_norm == pytest.approx(np.hypot(*each), rel=1e-12)
    np.testing.assert_allclose(maps.sum(axis=1), 1.0)
    assert 0.99 < sparsity <= 1.0


@pytest.mark.extra
def test_a_killed_training_goes_on_to_the_same_course(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="the vision transformer needs PyTorch: make test-extras")
    from hardmax.data.images import Images
    from hardmax.papers.max_margin import vision_training

    chance = np.random.default_rng(0)
    images, labels = chance.integers(0, 256, size=(2, 40, 32, 32, 3)).astype(np.uint8), np.arange(40) % 10
    data = Images(images[0], labels, images[1], labels, "drawn")
    tiny = vision_training.Protocol(train=40, test=40, epochs=3, patch=16, dim=8, depth=1, heads=2, batch=20)
    kind, path = ("normal", "exact"), tmp_path / "state.pt"
    straight = vision_training.train(data, tiny, *kind, 0, lambda share: None)
    monkeypatch.setattr(vision_training, "SAVED_EVERY", 1)

    def stop_in_the_second_epoch(share: float) -> None:
        if share > 0.6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        vision_training.train(data, tiny, *kind, 0, stop_in_the_second_epoch, path)
    heard: list[float] = []
    resumed = vision_training.train(data, tiny, *kind, 0, heard.append, path)
    assert len(heard) == 3  # the second batch of the second epoch, and the third epoch
    for name in ("norm", "sparsity", "accuracy"):
        np.testing.assert_array_equal(getattr(resumed, name), getattr(straight, name))
    np.testing.assert_array_equal(resumed.maps, straight.maps)
    with pytest.raises(ValueError, match=r"checkpoint must come from the same training.*\(seed\)"):
        vision_training.train(data, tiny, *kind, 1, lambda share: None, path)


@pytest.mark.extra
def test_the_papers_size_needs_a_gpu_and_a_day_names_what_differs():
    torch = pytest.importorskip("torch", reason="the vision transformer needs PyTorch: make test-extras")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match=r"needs a GPU, and none is here; take `scale=day`"):
            vision.protocol_of("paper")
    day = vision.protocol_of("day")
    assert (day.train, day.tokens, day.heads, day.rate) == (50_000, 256, 12, 3e-3)
    assert vision._differs(day) == [
        "Differs from the printed training: dimension 96, printed 768; layers 2, printed 12; epochs 5, "
        "printed 400."
    ]
