"""The log of a measured server: the same work as in a real one, with nobody who reads the screen."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from app.cli.options import log_to_screen
from app.config.snapshot import Config
from app.observe.lines import LineFormatter
from app.observe.server_log import LAYOUT, LOG_FOLDER, ServerLog, log_limits


def log_like_a_server(home: Path, config: Config) -> None:
    """Lines go to a file that keeps nothing, and into the folder of the log."""
    root = logging.getLogger()
    log_to_screen(config)
    for handler in root.handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setStream(open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - until the process ends
    written = ServerLog(home / LOG_FOLDER, lambda: log_limits(config.settings), config.zone)
    written.setFormatter(LineFormatter(LAYOUT, config.zone))
    root.addHandler(written)
