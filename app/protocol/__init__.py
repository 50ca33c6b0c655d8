"""Wire formats without I/O: markers, scanning, grammars. Standard library only."""
