"""Which directions attract: neighbours, local optimality, enumeration, directions critical at infinity."""
