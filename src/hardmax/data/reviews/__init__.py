"""Labeled texts: IMDB, Yelp, and any other table."""

from hardmax.data.reviews.opening import find_reviews
from hardmax.data.reviews.reading import Labelled, Review, ReviewReader, read_labelled, read_reviews

__all__ = ["Labelled", "Review", "ReviewReader", "find_reviews", "read_labelled", "read_reviews"]
