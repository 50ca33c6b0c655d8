"""Plugins: which there are, and what runs each type: processes, timetables, modules inside the server."""
