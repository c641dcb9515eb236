"""Types of the public surface: the same names as the table in __init__.py."""

from . import data as data
from .dynamics.descent import descend as descend
from .dynamics.descent import descend_batch as descend_batch
from .dynamics.display import TrajectoryDisplay as TrajectoryDisplay
from .dynamics.flow import flow as flow
from .dynamics.gradient import Gradient as Gradient
from .dynamics.gradient import gradient as gradient
from .dynamics.gradient import hessian as hessian
from .dynamics.joint import descend_joint as descend_joint
from .dynamics.measures import SignedLog as SignedLog
from .dynamics.measures import Smoothness as Smoothness
from .dynamics.measures import attention as attention
from .dynamics.measures import defect as defect
from .dynamics.measures import excess_risk as excess_risk
from .dynamics.measures import risk as risk
from .dynamics.measures import smoothness as smoothness
from .dynamics.measures import soft_sparsity as soft_sparsity
from .dynamics.trajectory import Trajectory as Trajectory
from .dynamics.trajectory import misalignment as misalignment
from .dynamics.weights import WeightTrajectory as WeightTrajectory
from .dynamics.weights import descend_weights as descend_weights
from .heads import LinearHead as LinearHead
from .heads import Loss as Loss
from .heads import NonlinearHead as NonlinearHead
from .heads import Scores as Scores
from .problem import Problem as Problem
from .selection import Selection as Selection
from .selection import selected_tokens as selected_tokens

__version__: str
