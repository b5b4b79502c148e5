"""From a program and a target to a kernel: the joint between the compiler's rooms."""
