"""CPU and GPU: array module and memory. The only package that uses cupy."""
