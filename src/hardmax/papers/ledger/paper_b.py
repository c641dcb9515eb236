"""Paper B: figures 1 to 10, the numbers of appendix E, and every numbered statement."""

from __future__ import annotations

from hardmax.papers.ledger.rows import LedgerItem, read_items

DRAWN = "drawn as the paper says: n = 4, T = 6, tokens and v uniform on the sphere, labels uniform"
QUICK = "quick: The stored result has 200 trials per d, not 1,000."
VISION = """differs: Dimension 96 (printed 768), 2 layers (12) and 5 epochs (400): 58 CPU minutes. The paper
        does not print its optimizer, batch, augmentation and which image it shows.
        | stand-in: a layer of four heads in numpy; stand-in data: 1,500 surrogate images of 64 patches, not
        CIFAR-10 | options: --scale day --data DIR"""
NOTEBOOK = "the printed tokens; scores and starts from the public notebooks"
COMPLETED = "the printed tokens, completed from the public notebook"

ITEMS: tuple[LedgerItem, ...] = read_items(
    "B",
    f"""
    Figure 1(a) | one input, equal other scores: every start goes to the globally best direction; normalized
        descent, step 0.1, 1,000 steps, logistic loss | B-FIG-1a | ours: the same; six starts
        | data: {NOTEBOOK}
    Figure 1(b) | one input, other scores: starts go to the globally or to a locally best direction | B-FIG-1b
        | ours: the same; six starts | data: {NOTEBOOK}
    Figure 1(c) | several inputs: the line that separates the best tokens | B-FIG-1c
        | ours: the same; six starts | data: the authors' own draw, reconstructed from the public notebook
    Figure 2 | a cone around a locally optimal direction, drawn as a sketch | B-FIG-2
        | ours: the cone with the explicit angle and radius of Lemma 7, and descent from inside
        | data: our own two inputs (B-FIG-8)
        | differs: The printed picture is a sketch without numbers; ours is to scale, on data of our own.
    Figure 3(a) | p and v trained together go to both max-margin directions; n = 3, T = d = 2 | B-FIG-3a
        | ours: the same | data: {COMPLETED}
    Figure 3(b) | one input is not a support vector: p goes to the relaxed direction | B-FIG-3b
        | ours: the same | data: {COMPLETED}
    Figure 3(c) | probabilities of the best tokens and of the labels rise to 1 | B-FIG-3c | ours: the same
        | data: as in (a)
        | comments: B-ERR-06: the printed formula has the largest probability, the notebook the best token's.
    Figure 4 | normalized descent saturates sooner than constant steps, and |p| grows faster | B-FIG-4
        | ours: the same, steps 0.1 and 1, 200 steps | data: the data of figure 1(c)
    Figure 5 | the way to the limit bends by loss and score | B-FIG-5
        | ours: the same, correlation and logistic loss, scores 1 to 100
        | data: the printed tokens; other scores from the public notebook
        | comments: B-ERR-19: in the first steps the logistic loss bends the other way for scores of 2 to 5.
    Figure 6 | ViT-base on CIFAR-10, 400 epochs, rate 3e-3: the map of [CLS] becomes sparse | B-FIG-6
        | ours: a smaller transformer on all 50,000 images, 256 patches, 12 heads, Adam at 3e-3, batch 100
        | data: CIFAR-10 | {VISION}
    Figure 7 | the same training: nnz/T falls while the norm of W grows | B-FIG-7
        | ours: a smaller transformer on all 50,000 images, 256 patches, 12 heads, Adam at 3e-3, batch 100
        | data: CIFAR-10 | {VISION}
    Figure 8 | n = T = d = 2: descent goes to the globally or to a locally best direction | B-FIG-8
        | ours: the same on data of this kind | data: our own two inputs
        | differs: The paper gives no coordinates; ours have its properties.
    Figure 9(a) | 1,000 trials at each of six d: shares of unsaturated, locally best and globally best ends
        | B-FIG-9a | ours: the same protocol, exact arithmetic | data: {DRAWN} | {QUICK}
    Figure 9(b) | distribution of the least score gap to a neighbor
        | B-FIG-9b | ours: the same protocol, exact arithmetic | data: {DRAWN} | {QUICK}
    Figure 10 | its cumulative distribution has a sharp transition at zero
        | B-FIG-10 | ours: the same protocol, exact arithmetic | data: {DRAWN} | {QUICK}
    Appendix E, correlation 0.997 | average correlation of p and its max-margin direction: 0.997
        | B-FIG-9a.damped | data: {DRAWN} | {QUICK}
        | ours: with the small constant of the notebooks added to the gradient's norm, in float64
        | differs: B-ERR-11: the number measures that constant; exact normalized descent gives 0.9999 and
        more.
    Appendix E, below 1 % | a neighbor scores higher in less than 1 % of the problems
        | B-FIG-9b.negative, B-FIG-10.below-zero | ours: the same count | data: {DRAWN} | {QUICK}
    Appendix E, above 0.99 | there the correlation with the max-margin solution is above 0.99 on average
        | B-FIG-9b.correlation-negative | ours: the same mean | data: {DRAWN} | {QUICK}
    Appendix E, close to zero | where a neighbor scores higher, its score is typically only slightly higher
        | B-FIG-10.not-close-to-zero | contradicts | data: {DRAWN} | {QUICK}
        | ours: gaps above -0.01 and of -0.05 or less, among the negative ones of the control stream
        | comments: B-ERR-11: few of the negative gaps are close to zero.
    Appendix E, saturated means unbounded | where softmax saturates, |p| goes to infinity
        | B-FIG-10.bounded | contradicts | data: {DRAWN} | {QUICK}
        | ours: |p| after 10,000 and 100,000 steps in the trials with a negative gap, d = 2 and 5
        | comments: B-ERR-11: saturated at 1 - 1e-5 does not imply that |p| diverges.
    Appendix E, ATT-SVM' | where a neighbor scores higher, ATT-SVM' is the better proxy | B-APP-E
        | data: trials of figure 9 with a negative gap
    Assumption A | smooth losses with a bounded, Lipschitz derivative | B-THM-L6
    Assumption B | one best token per input, equal other scores | B-ASM-B
    Assumption C | attention that is lost costs label margin | B-ASM-C
    Assumption D | less lost attention means less risk | B-ASM-D
    Definition 1 | scores, best tokens, the globally best direction | B-THM-L4
    Definition 2 | neighbors and locally best directions | B-THM-3, B-THM-4
    Definition 3 | directional neighbors and margins | B-THM-L9
    Lemma 1 | training W is training p | B-THM-L1
    Theorem 1 | the regularization path tends to the globally best direction | B-THM-1
    Lemma 2 | that direction exists for equal labels | B-THM-L2
    Theorem 2 | descent diverges; with one input its direction converges | B-THM-2
    Lemma 3 | the key covariance to first order | B-THM-L3
    Theorem 3 | local convergence from a cone | B-THM-3
    Lemma 4 | the globally best direction descends everywhere | B-THM-L4
    Theorem 4 | directions that are not locally best attract no local path | B-THM-4
    Lemma 5 | far out no direction beats the max-margin one, n = 1 | B-THM-L5
    Theorem 5 | the joint path where every input supports the label margin | B-THM-5
    Lemma 6 | the risk is smooth and descent lowers it | B-THM-L6
    Theorem 6 | the joint path tends to v_mm and the relaxed direction | B-THM-6 | differs: B-ERR-02: r must
        grow at least rho* times as fast as R, which the paper leaves open.
    Lemma 7 | gradients in the cone of a locally best direction | B-THM-L7
    Theorem 7 | Theorem 4 in the appendix, with general position defined | B-THM-4 | comments: B-ERR-10:
        general position is read for a fixed selection.
    Lemma 8 | the larger margin wins far out | B-THM-L8
    Theorem 8 | the path with several best tokens | B-THM-8, B-THM-8N
    Lemma 9 | a direction whose neighbors score higher is beaten by finite points | B-THM-L9
    Lemma 10 | at most d directional neighbors | B-THM-L10
    Lemma 11 | Lemma 2 in the appendix: all labels 1, v in the range of W' | B-THM-L2
    Lemma 12 | once attention tends to the selected tokens, no row of them is below zero along the joint path
        | fact Lemma 12 | ours: the least row along the joint path with r = 1.5 R
        | data: the data of figure 3(b)
    Lemma 13 | the joint path within the quadrant of the selection tends to v_mm and the relaxed direction
        | fact Lemma 13 | data: the data of figure 3(b)
        | ours: where the free path lies in the quadrant it is the restricted one: its angles
        | differs: B-ERR-02: r = 1.5 R, above the coupling rho* = 1.
    Lemma 14 | excess risk and lost attention, up to constants | B-THM-L14
    Bound (73) | attention lost at radius R, between two exponentials | B-EQ-73 | differs: A margin below zero
        counts as zero: lost attention cannot exceed one. | corrected
    Bound (75) | lost attention costs risk, whatever v | B-EQ-75
    Bound (79) | attention lost by the tightened relaxed direction | B-EQ-79
    Bound (84) | attention lost by sets at radius R | B-EQ-84 | differs: A margin below zero counts as zero:
        lost attention cannot exceed one.
    Text on figure 1(a) | the correlation with the limit rises at every step | B-THM-2M
    Appendix E, limits of descent | wherever softmax saturates, descent tends to a locally best direction
        | B-ERR-21
    """,
)
