"""Ops on matrices: products, decompositions, systems, einsum, Fourier transforms."""
