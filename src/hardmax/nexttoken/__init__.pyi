"""The public names of this package: read by type checkers, and by `attach_stub` at run time."""

from ..app.results.next_token import generate_file as generate_file
from ..app.results.next_token import predict_next as predict_next
from ..app.results.next_token import train_file as train_file
from ..app.results.next_token_check import check as check
from ..data.sentences.reading import read_sentences as read_sentences
from ..data.sentences.reading import write_sentences as write_sentences
from ..data.sentences.samples import Samples as Samples
from ..data.sentences.sentences import Sentences as Sentences
from .analysis import Analysis as Analysis
from .analysis import Violation as Violation
from .analysis import analyze as analyze
from .generators import Generated as Generated
from .generators import generate as generate
from .generators import named_sentences as named_sentences
from .models import NextTokenModel as NextTokenModel
from .predict import Prediction as Prediction
from .predict import Predictor as Predictor
from .predict import regenerate as regenerate
from .relations import Orders as Orders
from .relations import components as components
from .soft_labels import linear as linear
from .training import Training as Training
