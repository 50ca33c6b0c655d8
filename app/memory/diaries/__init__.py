"""Diary files: what people and models write, and the tools for it (memory.md 1)."""
