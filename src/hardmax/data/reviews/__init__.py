"""Labelled texts: IMDB, Yelp, and any table of one's own (A-DATA-4, A-DATA-5)."""

from hardmax.data.reviews.opening import find_reviews
from hardmax.data.reviews.reading import Review, ReviewReader, read_reviews

__all__ = ["Review", "ReviewReader", "find_reviews", "read_reviews"]
