"""Our tools, resources and prompts for MCP clients (mcp.md 3.3, 3.4, 3.7)."""
