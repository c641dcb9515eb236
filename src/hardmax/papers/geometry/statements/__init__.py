"""The statements of part D: norms, optimisers, queries and factors, data that do not separate."""
