"""The statements of the trained-embeddings paper; importing this folder enters them into the table."""

from hardmax.theory.paper_a import (
    convergence as convergence,
)
from hardmax.theory.paper_a import (
    first_step as first_step,
)
from hardmax.theory.paper_a import (
    gradients as gradients,
)
from hardmax.theory.paper_a import (
    local as local,
)
from hardmax.theory.paper_a import (
    margins as margins,
)
from hardmax.theory.paper_a import (
    strong as strong,
)
from hardmax.theory.paper_a import (
    theorem as theorem,
)
from hardmax.theory.paper_a import (
    tied as tied,
)
