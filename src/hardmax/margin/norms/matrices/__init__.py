"""The nuclear and the spectral norm of a matrix W: two solvers, Newton's last steps, the shortest optimum."""
