"""CPU and GPU devices: array module and memory. The only package that uses cupy."""
