"""Descriptions of kernels as data, from which both CPU and GPU code are generated."""
