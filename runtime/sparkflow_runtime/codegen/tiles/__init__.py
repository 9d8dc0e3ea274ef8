"""Products, convolutions and pooling: kernels that work on tiles in registers."""
