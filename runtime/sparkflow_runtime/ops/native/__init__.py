"""Kernels in machine code that ops of several families use; they register no op."""
