"""Labeled texts: IMDB, Yelp, and any other table (A-DATA-4, A-DATA-5)."""

from hardmax.data.reviews.opening import find_reviews
from hardmax.data.reviews.reading import Labelled, Review, ReviewReader, read_labelled, read_reviews

__all__ = ["Labelled", "Review", "ReviewReader", "find_reviews", "read_labelled", "read_reviews"]
