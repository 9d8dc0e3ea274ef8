"""From LLVM IR to functions that Python calls: the processor, compiling, the cache, threads."""
