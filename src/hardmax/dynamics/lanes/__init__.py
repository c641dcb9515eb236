"""Trainings side by side: eight small problems of one layout in the lanes of vector registers."""
