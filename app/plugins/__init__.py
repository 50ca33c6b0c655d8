"""Plugins: manifest, discovery, processes, stdio."""
