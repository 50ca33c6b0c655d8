"""Writes one diary note: its arguments, its file, its tags."""
