from .engine import answer as answer
from .server import Serving as Serving
from .server import serve as serve
