"""A vision transformer trained on CIFAR-10, its last layer measured after every epoch (extra ``torch``)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from hardmax._lib.files import whole
from hardmax._lib.parallel import cores
from hardmax.data.images import Images
from hardmax.papers.max_margin.vision_course import Course, measured
from hardmax.torch.layers import attention_layers
from hardmax.torch.vision import Backward, Start, VisionTransformer

SHOWN, LOOKED_AT = 3, 512  # images whose maps are drawn, and images that are measured
SAVED_EVERY = 50  # batches: less than a minute on one core


@dataclass(frozen=True)
class Protocol:
    """Sizes of the model and of its training."""

    train: int
    test: int
    epochs: int
    patch: int = 4
    dim: int = 96
    depth: int = 2
    heads: int = 4
    ratio: int = 2
    batch: int = 100
    rate: float = 1e-3

    @property
    def tokens(self) -> int:
        """T, the number of patches."""
        return (32 // self.patch) ** 2


SMALL = Protocol(train=5_000, test=1_000, epochs=10)
# About an hour on one core: all images, tokens and heads before more epochs, layers and dimensions.
DAY = Protocol(50_000, 10_000, 5, patch=2, heads=12, rate=3e-3)
FULL = Protocol(50_000, 10_000, 400, patch=2, dim=768, depth=12, heads=12, ratio=4, batch=512, rate=3e-3)

Tell = Callable[[float], None]


def train(
    images: Images,
    protocol: Protocol,
    start: Start,
    backward: Backward,
    seed: int,
    tell: Tell,
    checkpoint: Path | None = None,
) -> Course:
    """Train with Adam at a constant rate on the cross-entropy, in a new order of the images every epoch.

    With ``checkpoint`` the state is saved after each epoch and every `SAVED_EVERY` batches, and training
    resumes from there.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    sizes: Any = {name: getattr(protocol, name) for name in ("patch", "dim", "depth", "heads", "ratio")}
    model = VisionTransformer(**sizes, start=start, backward=backward, rng=seed).to(device)
    x, y = _tensor(images.train[: protocol.train]), torch.tensor(images.train_labels[: protocol.train])
    test, classes = _tensor(images.test[: protocol.test]), torch.tensor(images.test_labels[: protocol.test])
    x, y, test, classes = (tensor.to(device) for tensor in (x, y, test, classes))
    optimizer = torch.optim.Adam(model.parameters(), lr=protocol.rate)
    chance = torch.Generator().manual_seed(seed)
    identity = {**asdict(protocol), "epochs": None, "start": start, "backward": backward, "seed": seed}
    if checkpoint is None or not checkpoint.exists():
        rows, done = [_look(model, test, classes)], 0
    else:
        state = _load(checkpoint, identity)
        rows, done = [tuple(value.numpy() for value in row) for row in state["rows"]], state["taken"]
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        chance.set_state(state["chance"])

    def save(order: Any, done: int) -> None:
        """Write the state; ``order`` is the generator's before this epoch's permutation."""
        if checkpoint is None:
            return
        state = {
            "identity": identity,
            "rows": [[torch.as_tensor(value, dtype=torch.float64) for value in row] for row in rows],
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "chance": order,
            "taken": done,
        }
        with whole(checkpoint) as file:
            torch.save(state, file)

    batches = -(-len(x) // protocol.batch)
    for epoch in range(len(rows) - 1, protocol.epochs):
        order = chance.get_state()
        for k, batch in enumerate(torch.randperm(len(x), generator=chance).split(protocol.batch)):
            if k < done:
                continue
            optimizer.zero_grad()
            F.cross_entropy(model(x[batch.to(device)]), y[batch.to(device)]).backward()
            optimizer.step()
            tell((epoch + (k + 1) / batches) / protocol.epochs)
            if (k + 1) % SAVED_EVERY == 0:
                save(order, k + 1)
        done = 0
        rows.append(_look(model, test, classes))
        save(chance.get_state(), done)
    return Course(f"{start}, {backward}", *(np.array(column) for column in zip(*rows, strict=True)))


def _load(checkpoint: Path, identity: dict[str, Any]) -> Any:
    """Load the state of this very training from its checkpoint."""
    state = torch.load(checkpoint, weights_only=True)
    changed = [name for name in identity if state["identity"].get(name) != identity[name]]
    if changed:
        raise ValueError(
            f"checkpoint must come from the same training, {checkpoint} does not ({', '.join(changed)}); "
            "remove it, or choose another `out`"
        )
    return state


def train_all(
    images: Images,
    protocol: Protocol,
    kinds: list[tuple[Start, Backward]],
    seed: int,
    tell: Tell,
    folder: Path | None = None,
) -> list[Course]:
    """Run several trainings at a time, which share the cores; checkpoints go to ``folder``."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    done = dict.fromkeys(kinds, 0.0)

    def one(kind: tuple[Start, Backward]) -> Course:
        def heard(share: float) -> None:
            done[kind] = share
            tell(sum(done.values()) / len(done))

        path = None if folder is None else folder / f"B-FIG-7.{'-'.join(kind)}.pt"
        return train(images, protocol, *kind, seed, heard, path)

    before, threads = torch.get_num_threads(), max(1, cores() // max(1, len(kinds)))
    try:
        torch.set_num_threads(threads)
        with ThreadPoolExecutor(cores(), initializer=torch.set_num_threads, initargs=(threads,)) as pool:
            return list(pool.map(one, kinds))
    finally:
        torch.set_num_threads(before)


def _tensor(images: np.ndarray) -> Any:
    """Numbers of mean and deviation about 0 and 1, (n, 3, 32, 32)."""
    return (torch.tensor(images).permute(0, 3, 1, 2).float() / 255 - 0.5) / 0.25


@torch.no_grad()
def _look(model: VisionTransformer, test: Any, classes: Any) -> tuple[float | np.ndarray, ...]:
    parts = [model.cls_weights(part) for part in test[:LOOKED_AT].split(128)]
    sparsity, head_sparsity, with_self, maps = measured(torch.cat(parts).double().cpu().numpy(), own=True)
    layer = attention_layers(model)[-1]
    K, Q = (W.double().cpu().numpy() for W in (layer.key_weights(), layer.query_weights()))
    norm = float(np.linalg.norm(np.einsum("hwd,hwe->de", K, Q)))
    head_norm = float(np.sqrt(np.einsum("hvd,hwd,hve,hwe->", K, K, Q, Q, optimize=True)))
    labels = torch.cat([model(part).argmax(dim=1) for part in test.split(500)])
    accuracy = float((labels == classes).double().mean())
    return sparsity, head_sparsity, with_self, norm, head_norm, accuracy, maps[:SHOWN]
