"""The Model Context Protocol: our server for its clients, the servers that we are a client of, groups of tools."""
