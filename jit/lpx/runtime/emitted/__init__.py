"""The parts of the run time that lpx writes as LLVM IR: threads, scratch memory, Ctrl-C, and what CPython calls."""
