"""Groups of tools, of which a model first sees the names only (mcp.md section 2)."""
