"""B-FIG-6 and B-FIG-7: attention of a vision transformer becomes sparse; how |W| grows depends on the start.

On CIFAR-10 where it is given and PyTorch is there, else on surrogate images with a model in numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hardmax._lib.extras import install
from hardmax._lib.style import BLUE, INK, RED
from hardmax.data.images import Images, cifar10
from hardmax.papers.figures.claims import Claims, on_stand_in
from hardmax.papers.figures.figure import Findings, Scale, Setting, recipe
from hardmax.papers.figures.tables import Canvas, Tables, part
from hardmax.papers.max_margin.vision_course import Course, courses_table, maps_table, measured

if TYPE_CHECKING:
    from hardmax.papers.max_margin.vision_training import Protocol


T, D, CLASSES, HEADS, WIDTH = 64, 48, 4, 4, 12
TRAIN, TEST, BATCH, RATE = 1500, 500, 100, 3e-4


class Pictures(NamedTuple):
    """Patches (n, T, D), classes and where the salient patch is."""

    patches: np.ndarray
    classes: np.ndarray
    salient: np.ndarray


def draw_pictures(n: int, chance: np.random.Generator, directions: np.ndarray) -> Pictures:
    """Images of the classes whose directions are given, the last of which is saliency."""
    patches = chance.normal(size=(n, T, D)) / D**0.5
    classes = chance.integers(0, CLASSES, size=n)
    places = np.argsort(chance.random((n, T)), axis=1)[:, :5]
    patches[np.arange(n), places[:, 0]] = 3.0 * (directions[classes] + 0.7 * directions[-1])
    for k in range(1, 5):
        patches[np.arange(n), places[:, k]] = 2.4 * directions[chance.integers(0, CLASSES, size=n)]
    return Pictures(patches, classes, places[:, 0])


def shown(test: Pictures) -> list[int]:
    """The images whose maps are drawn: the first of three classes."""
    return [int(np.argmax(test.classes == c)) for c in range(3)]


def train_surrogate(
    start: float, name: str, epochs: int, seed: int, tell: Callable[[float], None]
) -> tuple[Course, Pictures]:
    """The course of a training from W_Q and W_K of standard deviation ``start``, and the test images."""
    chance = np.random.default_rng(seed)
    directions = chance.normal(size=(CLASSES + 1, D))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    train, test = (draw_pictures(n, chance, directions) for n in (TRAIN, TEST))
    cls = chance.normal(size=D)
    cls *= D**0.5 / np.linalg.norm(cls)
    W_Q, W_K = start * chance.normal(size=(2, HEADS, WIDTH, D))
    x = [W_Q, W_K, np.zeros((HEADS, CLASSES, D))]
    moments = [(np.zeros_like(a), np.zeros_like(a)) for a in x]  # of Adam, with its usual constants
    rows, steps = [_look(x, cls, test)], 0
    for epoch in range(epochs):
        for batch in np.array_split(chance.permutation(TRAIN), TRAIN // BATCH):
            steps += 1
            gradients = _gradients(x, cls, train.patches[batch], train.classes[batch])
            for weights, g, (m, v) in zip(x, gradients, moments, strict=True):
                m += 0.1 * (g - m)
                v += 0.001 * (g * g - v)
                weights -= RATE * (m / (1 - 0.9**steps)) / (np.sqrt(v / (1 - 0.999**steps)) + 1e-8)
        rows.append(_look(x, cls, test))
        tell((epoch + 1) / epochs)
    return Course(name, *(np.array(column) for column in zip(*rows, strict=True))), test


def _attend(x: list[np.ndarray], cls: np.ndarray, patches: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights (n, heads, T), and what each head mixes, (n, heads, D)."""
    queries = np.einsum("hwd,d->hw", x[0], cls)
    u = np.einsum("hwd,hw->hd", x[1], queries) / WIDTH**0.5
    logits = np.matmul(patches, u.T).transpose(0, 2, 1)
    s = np.exp(logits - logits.max(axis=2, keepdims=True))
    s /= s.sum(axis=2, keepdims=True)
    return s, s @ patches


def _gradients(
    x: list[np.ndarray], cls: np.ndarray, patches: np.ndarray, classes: np.ndarray
) -> list[np.ndarray]:
    """Of the mean cross-entropy, by W_Q, W_K and the classifiers; attention's relative to the top patch."""
    s, mixed = _attend(x, cls, patches)
    out = np.einsum("hcd,nhd->nc", x[2], mixed)
    out = np.exp(out - out.max(axis=1, keepdims=True))
    out /= out.sum(axis=1, keepdims=True)
    out[np.arange(len(out)), classes] -= 1.0
    out /= len(out)
    by_s = np.einsum("nc,hcd->nhd", out, x[2]) @ patches.transpose(0, 2, 1)
    by_s -= np.take_along_axis(by_s, s.argmax(axis=2)[..., None], axis=2)
    by_logits = s * (by_s - (s * by_s).sum(axis=2, keepdims=True))
    by_u = (by_logits @ patches).sum(axis=0) / WIDTH**0.5  # (heads, D)
    queries = np.einsum("hwd,d->hw", x[0], cls)
    return [
        np.einsum("hwd,hd->hw", x[1], by_u)[:, :, None] * cls,
        queries[:, :, None] * by_u[:, None, :],
        np.einsum("nc,nhd->hcd", out, mixed),
    ]


def _look(x: list[np.ndarray], cls: np.ndarray, test: Pictures) -> tuple[float | np.ndarray, ...]:
    s, mixed = _attend(x, cls, test.patches)
    classes = np.einsum("hcd,nhd->nc", x[2], mixed).argmax(axis=1)
    sparsity, head_sparsity, with_self, maps = measured(s, own=False)
    W = np.einsum("hwd,hwe->hde", x[1], x[0])
    norm, head_norm = float(np.linalg.norm(W.sum(axis=0))), float(np.linalg.norm(W))
    accuracy = float(np.mean(classes == test.classes))
    return sparsity, head_sparsity, with_self, norm, head_norm, accuracy, maps[shown(test)]


SEED = 0
NAMES = ("plane", "car", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
NORMAL, XAVIER, THEIRS = "normal, exact", "xavier, exact", "normal, torch"
NO_FOLDER = "no folder of real data was given; hardmax reproduce --data DIR takes CIFAR-10 from there."
NO_TORCH = "the vision transformer needs PyTorch, which is not installed"
DEFINITION = (
    "A map is the attention of [CLS] in the last layer on the T patches: averaged over the heads, its weight "
    "on itself dropped (it sees T + 1 keys) and the rest scaled to sum to one. nnz is taken of each image's "
    "map, then averaged over test images."
)


def source_of(setting: Setting) -> tuple[Images | None, str]:
    """CIFAR-10 of the folder of real data, or None and the reason why surrogate images replace it."""
    if setting.data is None:
        return None, NO_FOLDER
    if find_spec("torch") is None:
        return None, f"{NO_TORCH}: {install('torch')}."
    protocol = protocol_of(setting.scale)
    try:
        return _read(setting.data, protocol.train, protocol.test), ""
    except ValueError as missing:
        return None, f"{missing}; or name another folder by --data DIR."


_read = lru_cache(maxsize=1)(cifar10)


def protocol_of(scale: Scale) -> Protocol:
    """Sizes of a scale; the paper's own are refused where no GPU is."""
    import torch

    from hardmax.papers.max_margin.vision_training import DAY, FULL, SMALL

    if scale == "paper" and not torch.cuda.is_available():
        raise ValueError(
            "the paper's size (ViT-base with 256 patches, 50,000 images, 400 epochs) needs a GPU, and none "
            "is here; take `scale=day`"
        )
    return {"quick": SMALL, "day": DAY, "paper": FULL}[scale]


# Trainings of this process: figure 7 needs that of figure 6, and takes minutes.
_DONE: dict[tuple[Path, Scale, str], Course] = {}


class Trainings(NamedTuple):
    """Trainings of some kinds, notes on them, and labels of the images whose maps are shown."""

    courses: list[Course]
    notes: tuple[str, ...]
    labels: list[str]
    surrogate: Pictures | None  # the test images that replace CIFAR-10


def surrogate_note(why: str) -> str:
    """Return the note on a figure without images, which begins with the reason."""
    return (
        f"{why} Drawn are surrogate images, {TRAIN:,} of 64 patches with one salient patch and "
        "four distractors, and a layer of four heads in numpy: they show the shapes, and are not evidence "
        "about photographs."
    )


def trainings(setting: Setting, kinds: Sequence[str]) -> Trainings:
    """Train on CIFAR-10 of the folder of real data; else on surrogate images, without PyTorch."""
    images, why = source_of(setting)
    if images is not None:
        return _on_images(setting, images, kinds)
    epochs, courses = 15 if setting.scale == "quick" else 40, []
    for kind in [kind for kind in kinds if kind != THEIRS]:
        deviation = (0.3 if kind == NORMAL else 1.0) / D**0.5
        course, test = train_surrogate(deviation, kind, epochs, SEED, setting.progress)
        courses.append(course)
    notes = DEFINITION, surrogate_note(why)
    return Trainings(courses, notes, [f"class {c}" for c in test.classes[shown(test)]], test)


def _on_images(setting: Setting, images: Images, kinds: Sequence[str]) -> Trainings:
    from hardmax.papers.max_margin.vision_training import train_all

    assert setting.data is not None
    protocol = protocol_of(setting.scale)
    folder = None if setting.scale == "quick" else setting.checkpoints  # a quick one is not worth a file
    keys = {kind: (setting.data, setting.scale, kind) for kind in kinds}
    missing = [kind for kind, key in keys.items() if key not in _DONE]
    split: list[Any] = [tuple(kind.split(", ")) for kind in missing]
    part = f"training {len(missing)} vision transformer{'s' if len(missing) > 1 else ''}"
    new = train_all(images, protocol, split, SEED, lambda share: setting.progress(share, part), folder)
    _DONE.update({keys[kind]: course for kind, course in zip(missing, new, strict=True)})
    courses = [_DONE[key] for key in keys.values()]
    about = (
        f"CIFAR-10, {images.source}: the first {protocol.train:,} training and {protocol.test:,} test "
        f"images. Patches of {protocol.patch} x {protocol.patch} pixels (T = {protocol.tokens}), dimension "
        f"{protocol.dim}, {protocol.depth} layers of {protocol.heads} heads, batch {protocol.batch}, Adam at "
        f"{protocol.rate:g}, {protocol.epochs} epochs, seed {SEED}. The paper does not name its optimizer, "
        "batch or image."
    )
    compared = []
    if len(courses) == 3:
        small, xavier, theirs = courses
        compared.append(
            f"With PyTorch's backward nnz/T ends at {theirs.sparsity[-1]:.3f} and |W| at "
            f"{theirs.norm[-1]:.3g}, with the exact one at {small.sparsity[-1]:.3f} and "
            f"{small.norm[-1]:.3g}: attention is far from hard here, and the two differ by rounding, which "
            "training magnifies. Test accuracies are "
            f"{small.accuracy[-1]:.2f}, {xavier.accuracy[-1]:.2f} and {theirs.accuracy[-1]:.2f}."
        )
    labels = [NAMES[c] for c in images.test_labels[: len(courses[0].maps[0])]]
    return Trainings(courses, (DEFINITION, about, *compared, *_differs(protocol)), labels, None)


def _differs(protocol: Protocol) -> list[str]:
    """What of the printed setting a training does not have, in a sentence."""
    from hardmax.papers.max_margin.vision_training import FULL

    names = {"train": "training images", "tokens": "patches", "dim": "dimension", "depth": "layers"}
    names |= {name: name for name in ("heads", "epochs", "rate")}
    sizes = [(name, getattr(protocol, key), getattr(FULL, key)) for key, name in names.items()]
    less = [f"{name} {ours:g}, printed {printed:g}" for name, ours, printed in sizes if ours != printed]
    return [f"Differs from the printed training: {'; '.join(less)}."] if less else []


def draw_6(tables: Tables, canvas: Canvas) -> None:
    """A row of maps for each image, over the epochs; each map from white to its own largest weight."""
    maps, shown = tables["maps"], tables["images"]
    epochs = np.unique(maps["epoch"])
    names = shown["label"]
    side = round(len(np.unique(maps["patch"])) ** 0.5)
    panels = canvas.subplots(len(names), len(epochs), squeeze=False)
    for i, name in enumerate(names):
        for k, epoch in enumerate(epochs):
            weights = part(part(maps, "image", i), "epoch", epoch)["weight"].reshape(side, side)
            panel = panels[i, k]
            panel.imshow(weights, cmap="Reds", vmin=0, vmax=max(weights.max(), 5.0 / weights.size))
            panel.set(xticks=[], yticks=[])
            nnz = 1.0 / (weights**2).sum() / weights.size
            panel.set_xlabel(f"{nnz:.2f}", fontsize=6, labelpad=1.5)
            if i == 0:
                panel.set_title("start" if epoch == 0 else f"epoch {epoch}")
            if k == 0:
                panel.set_ylabel(str(name))
    if bool(tables["images"]["surrogate"][0]):
        canvas.suptitle("surrogate images: not CIFAR-10", color=RED, fontsize=7)


@recipe(
    "B-FIG-6",
    "Vision transformer: the map of [CLS] on the patches becomes sparse over the epochs",
    draw=draw_6,
    size=(5.2, 3.4),
    errata=("B-ERR-05",),
    reduced=True,
)
def fig_6(setting: Setting) -> Findings:
    """Maps of a few test images, from the start to the end of a training."""
    (course,), notes, labels, surrogate = trainings(setting, [NORMAL])
    start = "start | nnz/T of the mean map at the start | ≥ 0.9\n"
    ends = {"start": course.sparsity[0], "end": course.sparsity[-1]}
    if surrogate is None:
        table = f"""
            end | nnz/T after {course.epochs} epochs, mean over 512 test images | ≤ {_bounds(course)[0]}
            heads | nnz/T of single heads over nnz/T of the mean map: averaging hides some | ≤ 1.0
            """
        ends["heads"] = course.head_sparsity[-1] / course.sparsity[-1]
    else:
        table = """
            end | nnz/T at the end: one patch | ≤ 0.05
            salient | shown images whose top patch is the salient one | ≥ 1.0
            """
        top = course.maps[-1].argmax(axis=1)
        ends["salient"] = np.mean(top == surrogate.salient[shown(surrogate)])
    claims = Claims("B-FIG-6", start, table).judge(ends)
    # the start, the first epoch, and three more
    epochs = sorted({0, 1, *(round(course.epochs * share) for share in (0.33, 0.6, 1.0))})
    tables = {
        "maps": maps_table(course, epochs),
        "images": {"label": np.array(labels), "surrogate": np.full(len(labels), surrogate is not None)},
        "course": courses_table([course]),
    }
    notes = (*notes, "The number below a map is its own nnz/T; single maps jump.")
    return Findings(tables, claims if surrogate is None else on_stand_in(claims), notes, SEED)


TITLES = {NORMAL: "(a) small start", XAVIER: "(b) Xavier's start", THEIRS: "(c) as (a), PyTorch's backward"}


def draw_7(tables: Tables, canvas: Canvas) -> None:
    """Sparsity in red and |W| in blue over the epochs, a panel for each training, on common axes."""
    courses = tables["courses"]
    runs = list(dict.fromkeys(courses["run"].tolist()))
    panels = canvas.subplots(1, len(runs), sharey=True, squeeze=False)[0]
    top = 1.08 * float(courses["norm"].max())
    for k, (panel, run) in enumerate(zip(panels, runs, strict=True)):
        rows = part(courses, "run", run)
        panel.plot(rows["epoch"], rows["sparsity"], color=RED, marker=".", markersize=3)
        panel.plot(rows["epoch"], rows["head_sparsity"], color=RED, linestyle=":", linewidth=0.8)
        panel.set(ylim=(0, 1.05), xlabel="epoch", title=TITLES[run])
        if k == 0:
            panel.set_ylabel("nnz/T (dotted: of single heads)", color=RED)
        right = panel.twinx()
        right.plot(rows["epoch"], rows["norm"], color=BLUE, marker=".", markersize=3)
        right.plot(rows["epoch"], rows["head_norm"], color=BLUE, linestyle=":", linewidth=0.8)
        right.set_ylim(0, top)
        if k == len(runs) - 1:
            right.set_ylabel("$|W|$ (dotted: heads apart)", color=BLUE)
        else:
            right.set_yticklabels([])
        growth = rows["norm"][-1] / rows["norm"][0]
        text = f"$|W|$ grows\n{growth:.3g} times"
        panel.text(0.96, 0.5, text, transform=panel.transAxes, ha="right", fontsize=7, color=INK)
    if bool(tables["data"]["surrogate"][0]):
        canvas.suptitle("surrogate images: not CIFAR-10", color=RED, fontsize=7)


def _bounds(course: Course) -> tuple[float, float, float]:
    """At most nnz/T, at least growth of |W|, at most Spearman's correlation, by the training's length."""
    return (0.4, 6.0, -0.85) if course.epochs >= 20 else (0.6, 3.0, -0.8)


@recipe(
    "B-FIG-7",
    "Attention becomes sparse from every start; the norm of W grows much only from a small one",
    draw=draw_7,
    size=(7.0, 2.6),
    errata=("B-ERR-05", "B-ERR-22"),
    reduced=True,
)
def fig_7(setting: Setting) -> Findings:
    """nnz/T and |W| over the epochs, from two starts, and with PyTorch's own backward."""
    # a day has the one training that is printed; the comparisons with other starts are ours
    one = setting.scale == "day" and source_of(setting)[0] is not None
    courses, notes, _, surrogate = trainings(setting, [NORMAL] if one else [NORMAL, XAVIER, THEIRS])
    small, *others = courses
    ends: dict[str, Any] = {
        "start": small.sparsity[0],
        "end": small.sparsity[-1],
        "growth": small.growth if surrogate else [small.growth, small.head_norm[-1] / small.head_norm[0]],
        "spearman": small.correlation,
    }
    if others:
        ends |= {"xavier-end": others[0].sparsity[-1], "xavier-growth": others[0].growth}
    if len(others) > 1:
        first = abs(small.sparsity[1] - others[1].sparsity[1])
        ends |= {"torch-end": others[1].sparsity[-1], "torch-first": first}
    table = Claims("B-FIG-7", SURROGATE_7 if surrogate else _claims_7(small, compared=bool(others)))
    claims = table.judge({name: ends[name] for name in table.rows})
    lines = (
        f"{c.name} {c.sparsity[0]:.2f} to {c.sparsity[-1]:.2f} while |W| grows {c.growth:.3g} times"
        for c in courses
    )
    finding = f"nnz/T and |W|, at the start and at the end: {'; '.join(lines)}."
    if others:
        finding += " The size of the growth is the start's doing."
    tables = {"courses": courses_table(courses), "data": {"surrogate": np.array([surrogate is not None])}}
    return Findings(tables, on_stand_in(claims) if surrogate else claims, (finding, *notes), SEED)


SURROGATE_7 = """
    start | nnz/T at the start | ≥ 0.9
    end | nnz/T at the end | ≤ 0.05
    spearman | Spearman's correlation of nnz/T and |W| over the epochs | ≤ -0.8
        | sparsifies while the norm grows
    growth | |W| at the end over |W| at the start | ≥ 10.0
    xavier-end | nnz/T at the end from Xavier's start | ≤ 0.05
    xavier-growth | growth of |W| from there | ≤ 2.5
    """


def _claims_7(small: Course, *, compared: bool) -> str:
    """Claims about trainings on CIFAR-10, the printed one and those that are compared with it."""
    most, growth, correlation = _bounds(small)
    after = f"after {small.epochs} epochs"
    comparison = f"""
    xavier-end | nnz/T {after} from Xavier's start | ≤ {most}
    xavier-growth | growth of |W| from there: hardly any | ≤ 1.5
    torch-end | nnz/T {after} with PyTorch's backward | ≤ {most}
    torch-first | difference of both backwards in nnz/T after the first epoch | ≤ 0.02
    """
    return f"""
    start | nnz/T at the start | ≥ 0.9
    end | nnz/T {after} | ≤ {most}
    growth | |W| {after} over |W| at the start, heads together and apart | ≥ {growth}
    spearman | Spearman's correlation of nnz/T and |W| over the epochs | ≤ {correlation}
        | sparsifies while the norm grows
    {comparison if compared else ""}"""
