"""What commands of ``vcp memory`` share: asking the server that owns the home, or opening its index alone (D88)."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from app.cli.options import configured, home_folder, reader
from app.cli.terminal import printable
from app.config.keys import server_key
from app.config.snapshot import load
from app.errors import ConfigError, both
from app.extend import Json
from app.home.lock import HomeTakenError, own_home, owner_of
from app.home.running_server import ask, refused
from app.protocol.json_text import compact_json

if TYPE_CHECKING:
    from app.memory.index.memory_index import MemoryIndex
    from app.memory.index.sync import Sync

ANSWER_SECONDS = 3600.0
"""Reading a large index through, or making it anew, may take so long."""

Fields = Mapping[str, Json]

Alone = Callable[["MemoryIndex", "Sync"], Awaitable[Fields]]


async def answered(options: argparse.Namespace, method: str, path: str, body: Json, alone: Alone) -> Fields:
    """What the owner of the home answers, or ``alone`` with its index where nobody owns it.

    Raises ConfigError when the server refuses, and what ``alone`` raises.
    """
    home = home_folder(options)
    owner = owner_of(home)
    if owner is not None:
        config = load(home, os.environ)
        status, answer = await ask(owner, server_key(config).value, method, path, body, seconds=ANSWER_SECONDS)
        if status != 200 or not isinstance(answer, Mapping):
            raise refused(status, compact_json(answer))
        return answer
    config = configured(reader(options), logging.WARNING)
    if not config.settings.memory:
        raise ConfigError(both("记忆功能未启用（Memory=false）", "memory is switched off (Memory=false)"))
    from app.services.in_force import InForce
    from app.services.memory_index import home_index

    try:
        with own_home(home, "memory"):
            index, sync = home_index(InForce(config, ""))
            await index.open()
            try:
                return await alone(index, sync)
            finally:
                with suppress(TimeoutError):
                    await index.stop()
    except HomeTakenError as error:
        raise ConfigError(error.message) from error


def told(status: Fields) -> list[str]:
    """How the index is, in lines for a terminal."""
    lines = [
        f"{both('日记', 'notes')}: {status.get('notes')}",
        f"{both('片段', 'chunks')}: {status.get('chunks')}",
        f"{both('待处理', 'waiting')}: {status.get('pending')}",
        f"{both('大小', 'size')}: {_megabytes(status.get('bytes'))}",
    ]
    lines += _vectors(status.get("vectors"))
    if trouble := status.get("trouble"):
        lines.append(f"{both('问题', 'trouble')}: {printable(str(trouble))}")
    unreadable = status.get("unreadable")
    if isinstance(unreadable, Mapping):
        lines += [
            f"{both('无法读取', 'cannot be read')}: {printable(str(path))}: {printable(str(why))}"
            for path, why in unreadable.items()
        ]
    return lines


def _vectors(status: Json) -> list[str]:
    """How many fragments can be found by meaning, and what is wrong; nothing where no server runs to know."""
    if not isinstance(status, Mapping):
        return []
    model = status.get("serving") or status.get("embedder") or "-"
    lines = [
        f"{both('向量', 'vectors')}: {status.get('vectors')} ({printable(str(model))})",
        f"{both('待嵌入', 'to be embedded')}: {status.get('pending')}",
    ]
    if isinstance(building := status.get("building"), Mapping):
        lines.append(
            f"{both('正在更换模型', 'being embedded anew')}: {building.get('vectors')} "
            f"({printable(str(building.get('signature')))})"
        )
    if trouble := status.get("trouble"):
        lines.append(f"{both('向量的问题', 'trouble with vectors')}: {printable(str(trouble))}")
    if isinstance(waiting := status.get("waiting"), Mapping):
        text = f"{waiting.get('texts')} texts, vcp memory reembed"
        lines.append(f"{both('等待确认', 'waits for your word')}: {text}")
    return lines


def _megabytes(size: Json) -> str:
    return f"{size / 1e6:.1f} MB" if isinstance(size, int | float) else "-"
