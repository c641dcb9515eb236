"""Hard-margin problems: constraints in, a certified solution or a proof that there is none out."""
