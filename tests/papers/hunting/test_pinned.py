"""Data on which statements once raised an error, or failed by rounding alone or too early."""

import pytest

from hardmax.papers.hunting.candidates import candidate_of
from hardmax.papers.hunting.claims import claim_of

NOTHING = {"kind": "problem", "options": {}}


@pytest.mark.parametrize(
    "id, made, word",
    [
        ("D-THM-11", {"tokens": [[[4.0]] * 3], "loss": "log", "scores": [[1.0, 0.0, 0.0]]}, "holds"),
        (
            "B-THM-L9",
            {"tokens": [[[1.0], [0.0]]], "scores": [[0.0, 1.0]], "loss": "logistic", "options": {"p": [0.0]}},
            "not applicable",
        ),
        (
            "B-THM-L8",
            {
                "tokens": [[[1.0], [0.0]]],
                "scores": [[0.0, 1.0]],
                "loss": "logistic",
                "options": {"p": [0.0], "q": [1.0]},
            },
            "not applicable",
        ),
        (
            "B-THM-8N",
            {
                "tokens": [[[0.0], [-14.0]]],
                "loss": "exponential",
                "labels": [1],
                "head": [2.0],
                "options": {"draws": 10},
            },
            "undecided",
        ),  # tanh is flat there
        # the middle token lies between the others but for rounding: a margin of 1e-17
        (
            "B-EQ-79",
            {
                "tokens": [
                    [
                        [-1.5988221572953727, 0.3194986234621979, 0.3723910091349015],
                        [2.0738990374917967, -1.0842369264892964, -0.29999147047792873],
                        [-0.9730891413251304, 0.08405582800158021, 0.2277836082878152],
                        [-0.347356125354888, -0.15138696745903746, 0.08317620744072893],
                    ]
                ],
                "loss": "exponential",
                "labels": [1],
                "head": [-1.4104310260161392, -1.0176570797789843, -0.9764056968941887],
                "options": {"selection": [2]},
            },
            "undecided",
        ),
        (
            "B-THM-L7",
            {
                "tokens": [
                    [
                        [-0.0001989256366150522, 0.000720356917546093],
                        [0.004663105950339064, 0.9989411720865143],
                        [0.007094121743816122, 1.4980515796709986],
                    ]
                ],
                "loss": "logistic",
                "scores": [[0.010481886840223848, 0.9894344663588107, -0.9945532058156741]],
                "options": {"selection": [1], "draws": 15},
            },
            "undecided",
        ),
        # at a margin of 40 the row of score gap 120 still outweighs that of 0.4
        (
            "D-THM-9b",
            {"tokens": [[[0.0], [2.0], [60.8]]], "loss": "correlation", "scores": [[0.0, 119.6, 120.0]]},
            "holds",
        ),
        # the way to the limit is slow at first: a tight row without a multiplier, an offset
        (
            "B-THM-8",
            {
                "tokens": [[[24.0, 16.0], [0.0, 0.0]], [[0.0, 0.0], [16.0, 28.0]]],
                "loss": "exponential",
                "scores": [[1.0, 0.0], [0.0, 9.0]],
            },
            "holds",
        ),
        (
            "B-NEW-1b",
            {
                "tokens": [[[0.0, 0.0], [-9.0, -9.0], [-2.0, 1.5]]],
                "loss": "logistic",
                "labels": [-1],
                "head": [0.0, 0.0],
                "options": {"rho": 2.0},
            },
            "holds",
        ),
        # (0, 0, 0) and (1, 1, 0) have the label margin sqrt 2, with other v: a constant decides
        (
            "B-NEW-1b",
            {
                "tokens": [
                    [[0.0, 5.0], [-1.0, -1.0]],
                    [[-1.0, 1.0], [5.0, -7.0]],
                    [[-3.0, -1.0], [0.0, 0.0]],
                ],
                "loss": "logistic",
                "labels": [1, 1, 1],
                "head": [0.0, 0.0],
                "options": {"rho": 0.5},
            },
            "undecided",
        ),
        (
            "B-THM-5",
            {
                "tokens": [[[-3.0, -5.0], [1.0, -1.0], [0.0, 0.0]]],
                "loss": "logistic",
                "labels": [1],
                "head": [0.0, 0.0],
                "options": {"selection": [0]},
            },
            "holds",
        ),
        # tokens 1 and 2 have a larger label margin: Assumption C fails, where a search may miss it
        (
            "B-THM-5",
            {
                "tokens": [
                    [
                        [-0.18326823208184176, 0.9627259318247128, 0.5853287099540823],
                        [1.4682949147824176, 0.21019870278120295, 1.3455918138320493],
                        [-0.26117618046376745, -0.2854551873157195, -0.1460640683261936],
                    ],
                    [
                        [1.7876360159962368, -0.0282307515224738, -0.3407542423627993],
                        [0.0, 0.0, 0.0],
                        [-0.24704320645602829, -1.1516972496483076, 3.20200897400241],
                    ],
                ],
                "loss": "logistic",
                "labels": [1, -1],
                "head": [1.0, 0.0, 0.0],
                "options": {"selection": [0, 0]},
            },
            "not applicable",
        ),
        # tight rows without a multiplier: next to S the angle falls like (log log t)/log t
        (
            "D-CONJ-5",
            {
                "tokens": [
                    [[-0.5, 0.0, 1.0], [0.5, 0.5, -0.5], [0.0, 0.0, 0.0]],
                    [[0.0, 0.0, -0.5], [0.0, 0.0, -0.5], [-0.5, -0.5, -0.5]],
                ],
                "loss": "log",
                "scores": [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0]],
            },
            "undecided",
        ),
        # what S puts e^81 behind is not felt at log t = 21
        (
            "D-CONJ-5",
            {
                "tokens": [
                    [[0.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]],
                    [[0.0, 0.0, 0.0], [0.0, -1.0, -192.0], [0.0, 0.0, 2.0]],
                ],
                "loss": "log",
                "scores": [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]],
            },
            "undecided",
        ),
        (
            "B-THM-6",
            {
                "tokens": [[[2.0, 1.0, -2.0], [0.0, -0.5, -1.0], [0.0, 0.0, 0.0]]],
                "loss": "logistic",
                "labels": [-1],
                "head": [-1.0, -1.0, 1.0],
                "options": {"selection": [0], "rho": 0.5},
            },
            "holds",
        ),
        # terms in 1/R^2 still weigh at ten times the radius from which the softmax is saturated
        (
            "B-NEW-2",
            {
                "tokens": [[[0.0, 0.0], [3.0, 28.0]], [[0.0, 0.0], [11.0, 3.5]]],
                "loss": "correlation",
                "scores": [[1.0, 0.0], [1.0, 0.0]],
            },
            "holds",
        ),
        # w is zero, so that the angle is rounding
        (
            "B-NEW-3",
            {
                "tokens": [[[0.0, 0.0], [0.0, 2.0], [1.0, 1.0]]],
                "loss": "logistic",
                "scores": [[0.0, 0.0, 1.0]],
            },
            "holds",
        ),
        # a margin of 1e-6: swings of the size of a step are rounding next to |p|
        (
            "B-NEW-3",
            {
                "tokens": [[[0.0, 0.0], [0.0, 2.0], [2.0**-20, 1.0]]],
                "loss": "logistic",
                "scores": [[0.0, 0.0, 1.0]],
            },
            "undecided",
        ),
        # the threshold is so large that steps carry p 10 digits beyond a swing
        (
            "B-NEW-3",
            {
                "tokens": [[[0.0, 2.0], [0.0, 0.0], [1.0, 1.000203762499542]]],
                "loss": "correlation",
                "scores": [[0.0, 1.0, 0.0]],
            },
            "undecided",
        ),
        # score gaps of the two tight rows are so far from balanced that a coordinate turns back at first
        (
            "D-THM-9b",
            {
                "tokens": [[[0.0, 0.0], [12.0, 28.0]], [[0.0, 0.0], [4.0, -12.0]]],
                "loss": "logistic",
                "scores": [[1.0, 0.0], [0.0, 8.0]],
            },
            "undecided",
        ),
        # sign descent comes to rest
        (
            "D-THM-6",
            {
                "tokens": [
                    [[-1.0, 2.0], [0.0, -2.0], [1.0, 0.0]],
                    [[1.0, 2.0], [2.0, 2.0], [0.0, -1.0]],
                    [[2.0, 2.0], [1.0, 0.0], [1.0, 2.0]],
                ],
                "loss": "exponential",
                "scores": [[0.0, 0.0, 1.0], [-1.0, 2.0, 1.0], [-1.0, 0.0, 0.0]],
            },
            "not applicable",
        ),
        # a third row is tight but for 1e-4 of the margin
        (
            "B-NEW-3",
            {
                "tokens": [[[2.0, 1.0], [0.0, 2.0], [0.0, 0.0], [2.0, 1.000203762499542]]],
                "loss": "correlation",
                "scores": [[0.0, 0.0, 1.0, 0.0]],
            },
            "holds",
        ),
        # the offset grows at first; and a tight row without a multiplier lets angles fall like (log R)/R
        (
            "B-THM-1",
            {
                "tokens": [[[0.0, 0.0], [-2.0, 0.5], [4.0, 20.0]]],
                "loss": "logistic",
                "scores": [[0.0, 0.0, 1.0]],
            },
            "holds",
        ),
        (
            "B-THM-2",
            {
                "tokens": [[[1.0, 3.0], [-1.0, 1.0], [0.0, 0.0]]],
                "loss": "exponential",
                "scores": [[1.0, 0.0, 0.0]],
            },
            "holds",
        ),
        # one direction takes some 100,000 steps to settle
        (
            "D-THM-5",
            {
                "tokens": [
                    [[0.0, 0.0, 0.0], [-4.0, 0.0, -1.0], [15.0, 0.0, 5.0]],
                    [[13.0, 1.0, 4.0], [0.0, 0.0, 0.0]],
                ],
                "loss": "logistic",
                "scores": [[0.0, 0.0, 1.0], [0.0, 1.0]],
            },
            "holds",
        ),
        # silent for 30,000 steps and more, but the mean fades faster than the gradient, which comes back
        (
            "D-THM-7",
            {
                "tokens": [[[0.0, 0.0], [2.0, 0.0], [-5.0, -1.0]]],
                "loss": "logistic",
                "scores": [[10.0, 0.0, 0.0]],
            },
            "undecided",
        ),
        # a neighbor that scores as high as what is selected: nothing holds p there
        (
            "D-CONJ-1",
            {
                "tokens": [[[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]],
                "queries": [[0.0, 1.0]],
                "loss": "correlation",
                "scores": [[0.0, 0.0, -1.0]],
                "options": {"steps": 4000},
            },
            "not applicable",
        ),
        # beyond the critical rate normalized descent swings forever
        (
            "B-THM-2M",
            {
                "tokens": [[[0.0, 0.0], [1.0, 0.0], [-4.0, -1.0]]],
                "loss": "logistic",
                "scores": [[1.0, 0.0, 0.0]],
                "options": {"start": [0.0, 0.0], "steps": 200},
            },
            "not applicable",
        ),
        (
            "B-THM-4",
            {
                "tokens": [[[1.0, 0.0], [0.0, 0.0]]],
                "scores": [[1.0, 0.0]],
                "loss": "logistic",
                "options": {"q": [0.0, 0.0]},
            },
            "not applicable",
        ),
        (
            "A-LEM-14",
            {
                "kind": "words",
                "rows": [[0, 1], [0, 2], [0, 1], [3, 1], [4, 2], [5, 1]],
                "labels": [1, 1, 1, -1, -1, -1],
            },
            "undecided",
        ),
        # an injective n gives stars on legal data only: here most words have no next word
        (
            "C-THM-P2",
            {"kind": "words", "rows": [[0, 1, 2, 3, 1], [4, 3, 3]], "labels": None},
            "not applicable",
        ),
    ],
)
def test_judged_without_an_error(id, made, word):
    judged = claim_of(id).judge(candidate_of(NOTHING | made))
    assert judged.word == word, judged
