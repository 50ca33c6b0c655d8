"""What makes vectors of texts: the upstream's model, models on this machine, hashing (memory.md 8.5)."""
