"""Training: the log-domain softmax and its gradient, descent, flow, and where they went."""
