"""Trainings side by side: four small problems of one layout in the lanes of vector registers."""
