"""A-FIG-4: the two-layer model on reviews of Yelp."""

from hardmax.figures.figure import Findings, Setting, recipe
from hardmax.figures.paper_a.reviews import findings
from hardmax.figures.paper_a.two_layers import draw_two_layers, part_of


@recipe(
    "A-FIG-4", "Yelp, two layers: as on IMDB",
    draw=draw_two_layers, size=(7.0, 2.8), errata=("A-ERR-4",),
)  # fmt: skip
def fig_4(setting: Setting) -> Findings:
    """The two-layer model on Yelp."""
    return findings(part_of("Yelp", setting, "A-FIG-4"))
