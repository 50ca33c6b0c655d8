"""The parts of FolderDigest."""
