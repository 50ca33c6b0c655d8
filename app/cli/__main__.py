"""``python -m app.cli`` is the ``vcp`` command."""

from __future__ import annotations

from app.cli.program import main

main()
