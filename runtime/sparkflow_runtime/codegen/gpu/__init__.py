"""Fused kernels as CUDA."""
