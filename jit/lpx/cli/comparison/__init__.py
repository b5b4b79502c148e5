"""Programs that lpx and other libraries can run, timed in turns: what `lpx bench` and the benchmark suite share."""
