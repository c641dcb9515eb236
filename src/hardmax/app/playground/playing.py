"""The verb `play`: the playground in a notebook cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hardmax._lib.arguments import check_arguments
from hardmax._lib.extras import install

if TYPE_CHECKING:
    from hardmax.app.playground.widget import Playground


@check_arguments
def play(problem: Any = None) -> Playground:
    """The playground in a notebook cell: drag tokens, watch attention choose.

    ``problem`` is a planar `Problem` or a file of one, a list of sentences, or a link that the page gave;
    without it the guided tour begins. It needs the extra ``play``; outside notebooks the command
    `hardmax play` opens the same page in a browser.

    >>> import hardmax as hm
    >>> widget = hm.play(hm.data.example("B-FIG-8"))
    >>> widget.state["problem"]["scores"]
    [[1.0, 0.0], [1.0, 0.0]]
    """
    try:
        from hardmax.app.playground.widget import Playground
    except ModuleNotFoundError as error:
        if error.name not in ("anywidget", "traitlets", "ipywidgets"):
            raise
        raise ImportError(f"hm.play needs {error.name}: {install('play')}") from None
    return Playground(problem)
