"""Real text as a Corpus: the pipeline of paper A's experiments, on all cores, cached by content."""

from hardmax.data.text.gathering import TextReport
from hardmax.data.text.making import TextCorpus, imdb_corpus, text_corpus, yelp_corpus

__all__ = ["TextCorpus", "TextReport", "imdb_corpus", "text_corpus", "yelp_corpus"]
