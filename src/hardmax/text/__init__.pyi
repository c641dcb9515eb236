"""Types of the public names: the same as the table in __init__.py."""

from .classifier import AttentionClassifier as AttentionClassifier
from .counting.vectorizer import NgramVectorizer as NgramVectorizer
from .explanations import Explanation as Explanation
from .explanations import TokenRanking as TokenRanking
from .explanations import TopKReport as TopKReport
from .statistics import TextStatistics as TextStatistics
from .word_map import WordMap as WordMap
