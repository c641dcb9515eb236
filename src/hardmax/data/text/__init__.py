"""Real text as a Corpus: the pipeline of paper A's experiments, on all cores, cached by content."""

from hardmax.data.text.experiments import imdb_corpus, yelp_corpus
from hardmax.data.text.making import TextCorpus, text_corpus
from hardmax.data.text.report import TextReport

__all__ = ["TextCorpus", "TextReport", "imdb_corpus", "text_corpus", "yelp_corpus"]
