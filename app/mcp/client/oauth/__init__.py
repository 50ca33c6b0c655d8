"""Signing in to MCP servers by OAuth: whose tokens we have, how a person gives them, where they may go (MCP-73)."""
