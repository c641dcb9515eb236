"""Heads of trained models as max-margin problems: hardness, margins, chance, names.

All but three files are numpy alone: `loading` reads models, `seeing` runs them, `as_heads` turns what was
seen into problems.
"""
