"""How a step rule is run: a compiled loop, a plain one, and gradients with an exponent per coordinate."""
