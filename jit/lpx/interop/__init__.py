"""lpx inside of other compilers and theirs inside of lpx: one room per library, imported only when asked for."""
