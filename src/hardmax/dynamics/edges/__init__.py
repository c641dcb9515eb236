"""The fast path of next-token problems: gradients as fluxes along edges, steps along them, their flow."""
