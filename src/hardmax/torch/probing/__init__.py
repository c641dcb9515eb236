"""Heads of trained models as max-margin problems: hardness, margins, chance, names.

`loading` reads models and `seeing` runs them and makes problems of their heads; the other files need only
numpy.
"""
