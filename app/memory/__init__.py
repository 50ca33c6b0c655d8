"""The long memory: diary files that people and models write."""
