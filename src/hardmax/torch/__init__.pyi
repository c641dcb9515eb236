"""Types of the public names: the same as the table in __init__.py."""

from .layers import AttentionLayer as AttentionLayer
from .layers import Projection as Projection
from .layers import attention_layers as attention_layers
