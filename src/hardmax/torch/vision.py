"""A vision transformer whose attention has the exact backward, or PyTorch's for comparison."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn
from torch.nn import functional as F

from hardmax.torch.dot_product import attention_weights, scaled_dot_product_attention

Start = Literal["normal", "xavier"]
Backward = Literal["exact", "torch"]


class VisionTransformer(nn.Module):  # type: ignore[misc]
    """Patches and a [CLS] token through blocks with LayerNorm in front; the class is read off [CLS].

    Args:
        size, patch: side of the images and of a patch, in pixels.
        dim, depth, heads, ratio: width, number of blocks, heads of each, and how much wider its MLP is.
        classes: number of classes.
        start: weights drawn from a normal law of standard deviation 0.02, cut at two of them, or by Xavier.
        backward: that of `hm.torch.scaled_dot_product_attention`, or PyTorch's.
        rng: seed of the start.

    >>> import torch, hardmax as hm
    >>> model = hm.torch.VisionTransformer(dim=16, depth=1, heads=2)
    >>> model(torch.zeros(2, 3, 32, 32)).shape, model.cls_weights(torch.zeros(2, 3, 32, 32)).shape
    (torch.Size([2, 10]), torch.Size([2, 2, 65]))
    """

    def __init__(
        self,
        *,
        size: int = 32,
        patch: int = 4,
        dim: int = 96,
        depth: int = 2,
        heads: int = 4,
        ratio: int = 2,
        classes: int = 10,
        start: Start = "normal",
        backward: Backward = "exact",
        rng: int = 0,
    ) -> None:
        super().__init__()
        if size % patch or dim % heads:
            raise ValueError(f"patch must divide size and heads dim, got {patch} and {heads}; choose others")
        self.patches = nn.Linear(3 * patch * patch, dim)
        self.patch = patch
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.positions = nn.Parameter(torch.zeros(1, 1 + (size // patch) ** 2, dim))
        self.blocks = nn.ModuleList(_Block(dim, heads, ratio, backward) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)
        if start not in ("normal", "xavier"):
            raise ValueError(f"start must be 'normal' or 'xavier', got {start!r}")
        chance = torch.Generator().manual_seed(rng)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                if start == "xavier":
                    nn.init.xavier_uniform_(module.weight, generator=chance)
                else:
                    nn.init.trunc_normal_(module.weight, std=0.02, a=-0.04, b=0.04, generator=chance)
                nn.init.zeros_(module.bias)
        for parameter in (self.cls, self.positions):
            nn.init.trunc_normal_(parameter, std=0.02, a=-0.04, b=0.04, generator=chance)

    def _before_last(self, images: torch.Tensor) -> torch.Tensor:
        """Tokens after all blocks but the last."""
        cut = F.unfold(images, self.patch, stride=self.patch).transpose(1, 2)  # (n, T, 3 patch^2)
        x = self.patches(cut)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1) + self.positions
        for block in self.blocks[:-1]:
            x = block(x)
        return x

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits (n, classes) of images (n, 3, size, size)."""
        # The class is read off [CLS], so the last block updates nothing else.
        x = self.blocks[-1](self._before_last(images), 1)
        return self.head(self.norm(x[:, 0]))

    @torch.no_grad()
    def cls_weights(self, images: torch.Tensor) -> torch.Tensor:
        """Attention of [CLS] in the last block, (n, heads, T + 1); its own weight comes first."""
        last = self.blocks[-1]
        q, k, _ = last.attend.projected(last.before(self._before_last(images)), 1)
        return attention_weights(q, k)[:, :, 0]


class _Block(nn.Module):  # type: ignore[misc]
    def __init__(self, dim: int, heads: int, ratio: int, backward: Backward) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attend = _SelfAttention(dim, heads, backward)
        self.mlp = nn.Sequential(nn.Linear(dim, ratio * dim), nn.GELU(), nn.Linear(ratio * dim, dim))

    def forward(self, x: torch.Tensor, first: int | None = None) -> torch.Tensor:
        """Update all tokens, or only the ``first`` ones."""
        x = x[:, :first] + self.attend(self.before(x), first)
        return x + self.mlp(self.between(x))


class _SelfAttention(nn.Module):  # type: ignore[misc]
    def __init__(self, dim: int, heads: int, backward: Backward) -> None:
        super().__init__()
        if backward not in ("exact", "torch"):
            raise ValueError(f"backward must be exact or torch, got {backward!r}; choose one")
        self.num_heads, self.backward = heads, backward
        self.query, self.key, self.value, self.out = (nn.Linear(dim, dim) for _ in range(4))

    def projected(self, x: torch.Tensor, first: int | None = None) -> list[torch.Tensor]:
        """Queries (of the ``first`` tokens), keys and values, (n, heads, tokens, width)."""
        projections = (self.query(x[:, :first]), self.key(x), self.value(x))
        return [part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in projections]

    def forward(self, x: torch.Tensor, first: int | None = None) -> torch.Tensor:
        q, k, v = self.projected(x, first)
        attend = scaled_dot_product_attention if self.backward == "exact" else F.scaled_dot_product_attention
        return self.out(attend(q, k, v).transpose(1, 2).flatten(-2))
