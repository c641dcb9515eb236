"""Compile every kernel into numba's cache before the tests, which would do so in each process, and traced."""

import numpy as np

import hardmax as hm
import hardmax.embeddings.trainer.kernels  # its kernels are compiled on import
from hardmax.figures.paper_b.official import OFFICIAL, official_end
from hardmax.margin.batch import solve_batch
from hardmax.nexttoken import Samples, check, named, train

problem = hm.data.sphere(n=4, T=6, d=3, rng=0)
for coordinates in ("primal", "gram", "qr"):
    hm.descend(problem, 2, 0.1, coordinates=coordinates)
hm.descend_joint(hm.data.named("B-FIG-3a"), 2, 0.1, 0.1)
hm.flow(problem, until_norm=2.0)
solve_batch(np.random.default_rng(0).normal(size=(2, 4, 3)))
list(hm.locally_optimal(problem))
for name in ("C-EX-1", "C-EXT-3"):  # the second needs signed steps too
    check(named(name))
    train(Samples.from_sentences(named(name)), steps=50, rate=0.02)
for arithmetic in OFFICIAL:
    official_end([problem], arithmetic, steps=1)
