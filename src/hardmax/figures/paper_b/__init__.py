"""The figures of the max-margin paper; importing this folder enters them, in order."""

from hardmax.figures.paper_b import (  # noqa: I001  in the order of the paper
    convergence as convergence,  # 1a, 1b, 1c
    cone as cone,  # 2
    joint as joint,  # 3a, 3b, 3c
    rho as rho,  # RHO, ours
    index as index,  # INDEX, ours
    chaos as chaos,  # CHAOS, ours
    rates as rates,  # 4, 5
    basins as basins,  # 8
    random_data as random_data,  # 9a, 9b, 10
)
