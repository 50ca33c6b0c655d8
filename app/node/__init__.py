"""This machine as a far node: its plugins, and one WebSocket to a main server (spec 6.4)."""
