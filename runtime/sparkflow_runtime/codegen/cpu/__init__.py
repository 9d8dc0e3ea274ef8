"""Fused kernels on the CPU: loops, vectors, reductions and mathematics as LLVM IR."""
