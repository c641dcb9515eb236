"""The public names of this package: read by type checkers, and by `lazy_loader` at run time."""

from .attention import Attended as Attended
from .attention import AttentionModel as AttentionModel
from .attention import AttentionRun as AttentionRun
from .attention import Link as Link
from .attention import Softmax as Softmax
from .flow import Remainder as Remainder
from .gradient import Gradient as Gradient
from .gradient import hessian as hessian
from .measures import SignedLog as SignedLog
from .measures import Smoothness as Smoothness
from .measures import excess_loss as excess_loss
from .measures import off_top_attention as off_top_attention
from .measures import smoothness as smoothness
from .measures import soft_sparsity as soft_sparsity
from .models import FactorRun as FactorRun
from .models import Factors as Factors
from .models import Joint as Joint
from .models import Matrix as Matrix
from .models import Model as Model
from .models import WeightRun as WeightRun
from .run import RunDisplay as RunDisplay
