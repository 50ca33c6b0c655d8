"""A calculator for text that cannot be trusted: no part of the text is ever run as code (design.md, trap 7)."""
