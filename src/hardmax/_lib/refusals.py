"""The error of a wrong type, and the annotation of integers without a limit; `arguments` gives both away."""

from typing import Annotated

AnyInteger = Annotated[int, "of any size"]  # the annotation of widths that may be 10**60


class WrongType(TypeError, ValueError):
    """An argument of a wrong type; also a ValueError, as which hardmax 0.2 refused most of them."""
