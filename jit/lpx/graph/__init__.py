"""Model graphs: typed values, one table of operators, rewrites, fusion, execution."""
