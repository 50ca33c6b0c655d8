"""Logs and the event bus."""
