"""The figures of the max-margin paper; importing this folder enters them, in order."""

from hardmax.figures.paper_b import (
    basins as basins,
)
from hardmax.figures.paper_b import (
    chaos as chaos,
)
from hardmax.figures.paper_b import (
    cone as cone,
)
from hardmax.figures.paper_b import (
    convergence as convergence,
)
from hardmax.figures.paper_b import (
    index as index,
)
from hardmax.figures.paper_b import (
    random_data as random_data,
)
from hardmax.figures.paper_b import (
    rates as rates,
)
from hardmax.figures.paper_b import (
    rho as rho,
)
from hardmax.figures.paper_b import (
    trained_head as trained_head,
)
