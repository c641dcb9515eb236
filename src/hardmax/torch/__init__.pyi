"""Types of the public names: the same as the table in __init__.py."""

from .dot_product import attention_weights as attention_weights
from .dot_product import scaled_dot_product_attention as scaled_dot_product_attention
from .embedding_models import KeyQuery as KeyQuery
from .embedding_models import NextToken as NextToken
from .embedding_models import OneLayer as OneLayer
from .embedding_models import QueryAttention as QueryAttention
from .embedding_models import TunedPrompt as TunedPrompt
from .embedding_models import TwoLayer as TwoLayer
from .embedding_models import padded as padded
from .layers import AttentionLayer as AttentionLayer
from .layers import Projection as Projection
from .layers import attention_layers as attention_layers
from .multihead import MultiheadAttention as MultiheadAttention
from .prober import probe as probe
from .probing.heads import ProbedHead as ProbedHead
from .probing.tables import Heads as Heads
from .problems import point_of as point_of
from .problems import problem_of as problem_of
from .replacement import exact_attention as exact_attention
from .replacement import register_with_transformers as register_with_transformers
from .vision import VisionTransformer as VisionTransformer
from .watching import Watch as Watch
from .watching import watch as watch
from .zero_sum import softmax as softmax
