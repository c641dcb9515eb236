"""Part D, the geometry of queries, norms, optimizers and inseparable data: its statements and figures."""
