"""The public names of this package: read by type checkers, and by `attach_stub` at run time."""

from .generators import fig9_oracle as fig9_oracle
from .generators import gaussian as gaussian
from .generators import sphere as sphere
from .reviews import Labelled as Labelled
from .reviews import Review as Review
from .reviews import find_reviews as find_reviews
from .reviews import read_labelled as read_labelled
from .reviews import read_reviews as read_reviews
from .small import example as example
from .small import examples as examples
