"""The statements of part D: norms, optimizers, queries and factors, data that do not separate."""
