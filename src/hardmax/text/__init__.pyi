"""The public names of this package: read by type checkers, and by `attach_stub` at run time."""

from ..app.results.text import explain as explain
from ..app.results.text import important as important
from ..app.results.text import train_classifier as train_classifier
from .classifier import AttentionClassifier as AttentionClassifier
from .counting.vectorizer import NgramVectorizer as NgramVectorizer
from .explanations import Explanation as Explanation
from .explanations import TextStatistics as TextStatistics
from .explanations import TokenRanking as TokenRanking
from .explanations import TopKReport as TopKReport
from .explanations import WordMap as WordMap
