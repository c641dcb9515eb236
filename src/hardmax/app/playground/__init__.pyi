from .engine import answer as answer
from .playing import serve as serve
from .server import Serving as Serving
