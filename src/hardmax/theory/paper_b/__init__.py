"""The statements of the max-margin paper; importing this folder enters them into the table."""

from hardmax.theory.paper_b import (
    cone as cone,
)
from hardmax.theory.paper_b import (
    convergence as convergence,
)
from hardmax.theory.paper_b import (
    directions as directions,
)
from hardmax.theory.paper_b import existence as existence
from hardmax.theory.paper_b import (
    finite as finite,
)
from hardmax.theory.paper_b import (
    gradients as gradients,
)
from hardmax.theory.paper_b import (
    index as index,
)
from hardmax.theory.paper_b import joint_training as joint_training
from hardmax.theory.paper_b import (
    late as late,
)
from hardmax.theory.paper_b import (
    local as local,
)
from hardmax.theory.paper_b import (
    paths as paths,
)
from hardmax.theory.paper_b import several as several
from hardmax.theory.paper_b import (
    weights as weights,
)
