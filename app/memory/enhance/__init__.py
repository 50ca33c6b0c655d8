"""What bends a search: semantic groups, tags of notebooks, the graph of tags, thinking chains (memory.md 5)."""
