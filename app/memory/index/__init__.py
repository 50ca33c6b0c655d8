"""The index of all notes: derived data in SQLite, brought up to date from the files (memory.md 3, 9)."""
