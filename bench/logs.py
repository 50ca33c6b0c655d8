"""What a measured server has in common with one that runs: its log, which nobody reads, and its care for memory."""

from __future__ import annotations

import gc
import logging
import os
from pathlib import Path

from app.cli.options import log_to_screen
from app.cli.serve import YOUNG_OBJECTS
from app.config.snapshot import Config
from app.observe.lines import LineFormatter
from app.observe.server_log import LAYOUT, LOG_FOLDER, ServerLog, log_limits


def be_like_a_server(home: Path, config: Config) -> None:
    """Lines go to a file that keeps nothing, and into the folder of the log; cycles are looked for as seldom."""
    gc.set_threshold(YOUNG_OBJECTS)
    root = logging.getLogger()
    log_to_screen(config)
    for handler in root.handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setStream(os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))
    written = ServerLog(home / LOG_FOLDER, lambda: log_limits(config.settings), config.zone)
    written.setFormatter(LineFormatter(LAYOUT, config.zone))
    root.addHandler(written)
