"""The nuclear and the spectral norm of a matrix W: a solver, Newton's last steps, the shortest optimum."""
