"""Heads of trained models as max-margin problems, in numpy alone: hardness, margins, null models, names."""
