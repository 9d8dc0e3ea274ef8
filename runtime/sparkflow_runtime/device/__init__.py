"""CPU and GPU: array module and memory. The only room that touches cupy."""
