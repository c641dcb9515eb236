"""The figures of part D: which direction each optimiser takes, and when."""
