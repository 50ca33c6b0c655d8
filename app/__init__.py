"""An OpenAI-compatible chat middleware server."""

__version__ = "0.1.0"
