"""Time words in Chinese and English: text and a moment in, ranges of days out (memory.md 4)."""
