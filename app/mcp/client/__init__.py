"""MCP servers whose tools we use (mcp.md 3.6, 3.8)."""
