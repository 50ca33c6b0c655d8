"""``python -m bench.memory``: how well what is asked for is found, beside BM25, vectors alone, and both."""
