"""The statements of the next-token paper; importing this folder enters them into the table."""

from hardmax.theory.paper_c import (
    convergence as convergence,
)
from hardmax.theory.paper_c import (
    gradients as gradients,
)
from hardmax.theory.paper_c import loss as loss
from hardmax.theory.paper_c import (
    margins as margins,
)
from hardmax.theory.paper_c import (
    stage1 as stage1,
)
