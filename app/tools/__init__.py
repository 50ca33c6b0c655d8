"""The router (the only caller of tools), guards, descriptions, renderings of results."""
