"""The composition root: builds every part with explicit arguments, hands them to each other, starts and stops them.

``root.py`` has :class:`Services`, which holds all parts and lists them in the order in which they are made. The other
files say how the parts of one area are built from the settings.
"""

from app.services.root import Services

__all__ = ["Services"]
