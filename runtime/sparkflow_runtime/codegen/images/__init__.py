"""Kernels that move and combine pixels: what resizes images and cuts parts out of them."""
