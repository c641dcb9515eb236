"""Where data comes from: generators, the figures' data sets, files."""

from hardmax.data.generators import fig9_oracle, gaussian, sphere
from hardmax.data.named import named

__all__ = ["fig9_oracle", "gaussian", "named", "sphere"]
