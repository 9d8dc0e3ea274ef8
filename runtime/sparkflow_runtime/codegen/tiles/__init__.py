"""Matrix products, convolutions and pooling: kernels that work on register tiles."""
