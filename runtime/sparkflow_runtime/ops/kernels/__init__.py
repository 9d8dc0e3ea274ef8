"""How the kernels of ops are chosen, and what they share."""
