"""The figures of part D: which direction each optimizer takes, and when."""
