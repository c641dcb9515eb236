"""Solutions without a solver, in fractions: of next tokens (paper C) and of patterns (paper A)."""
