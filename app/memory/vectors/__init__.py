"""Vectors of chunks and tags: sets of one signature, exact and approximate search, filling them (memory.md 3.6, 9)."""
