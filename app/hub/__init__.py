"""Who is connected over a WebSocket: channels, far nodes, files across nodes, tool clients, approvals."""
