"""Where data comes from: generators, the figures' data sets, files."""

from hardmax.data.generators import fig9_oracle, gaussian, sphere
from hardmax.data.reviews import Labelled, Review, find_reviews, read_labelled, read_reviews
from hardmax.data.small import named

__all__ = [
    "Labelled",
    "Review",
    "fig9_oracle",
    "find_reviews",
    "gaussian",
    "named",
    "read_labelled",
    "read_reviews",
    "sphere",
]
