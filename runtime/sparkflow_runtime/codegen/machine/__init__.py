"""Turns LLVM IR into functions that Python calls: host processor, compiling, cache, threads."""
