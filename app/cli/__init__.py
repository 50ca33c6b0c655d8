"""The ``vcp`` command: one thin file for each of its commands."""

from app.cli.program import main

__all__ = ["main"]
