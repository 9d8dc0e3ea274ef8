"""Ops of neural networks: activations, losses, normalisation, quantisation."""
