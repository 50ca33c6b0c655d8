"""From declarations in a prompt to remembered text in it (memory.md 2)."""
