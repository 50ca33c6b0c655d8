"""Which chunks answer a question: candidates, their scores, what is left of them (memory.md 8.3, 11.7 to 11.18)."""
