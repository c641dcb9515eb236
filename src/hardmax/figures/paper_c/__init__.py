"""The figures of the next-token paper; importing this folder enters them, in order."""

from hardmax.figures.paper_c import (  # noqa: I001  in the order of the paper
    example as example,  # 1
    stage1 as stage1,  # 2a, 2b, 2c
    stage2 as stage2,  # 2d, 2e, 2f
    rate as rate,  # RATE, ours
    bounds as bounds,  # BOUNDS, ours
)
