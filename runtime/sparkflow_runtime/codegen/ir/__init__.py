"""What kernels compute, as data: the one description of CPU and GPU code."""
