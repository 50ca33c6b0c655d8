"""What commands show of a server that has to run in the home: its answer as JSON, or in lines for people."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from app.cli.options import EXIT_OK, home_folder, run
from app.config.keys import server_key
from app.config.snapshot import load
from app.errors import ConfigError, both
from app.extend import Json
from app.home.lock import Owner, owner_of
from app.home.running_server import ANSWER_SECONDS, ask, refused
from app.protocol.json_text import compact_json, pretty_json

Lines = Callable[[Mapping[str, Json]], Iterable[str]]


def needed_owner(home: Path) -> Owner:
    """The server that runs in a home; raises ConfigError where none does."""
    owner = owner_of(home)
    if owner is None:
        raise ConfigError(
            f"{home}: "
            + both("没有服务器在运行，请先启动 vcp serve", "no server runs in this home; start it with vcp serve")
        )
    return owner


def show_answer(
    options: argparse.Namespace, path: str, body: Json, lines: Lines, *, seconds: float = ANSWER_SECONDS
) -> int:
    """Post ``body`` and print what is answered: with ``--json`` as it is, else by ``lines``.

    Raises ConfigError where no server runs, and when it refuses.
    """
    home = home_folder(options)
    owner = needed_owner(home)
    key = server_key(load(home, os.environ)).value

    async def shown() -> int:
        status, answer = await ask(owner, key, "POST", path, body, seconds=seconds)
        if status != 200 or not isinstance(answer, Mapping):
            raise refused(status, compact_json(answer))
        print(pretty_json(answer) if options.json else "\n".join(lines(answer)))
        return EXIT_OK

    return run(shown())
