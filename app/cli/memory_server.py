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
    vectors = status.get("vectors")
    if isinstance(vectors, Mapping):
        lines += _vectors_told(vectors)
    if trouble := status.get("trouble"):
        lines.append(f"{both('问题', 'trouble')}: {printable(str(trouble))}")
    unreadable = status.get("unreadable")
    if isinstance(unreadable, Mapping):
        lines += [
            f"{both('无法读取', 'cannot be read')}: {printable(str(path))}: {printable(str(why))}"
            for path, why in unreadable.items()
        ]
    return lines


def _vectors_told(vectors: Fields) -> list[str]:
    lines = [f"{both('嵌入模型', 'embedding model')}: {printable(str(vectors.get('embedder') or both('无', 'none')))}"]
    counts = f"{vectors.get('vectors')}, {both('待嵌入', 'to be embedded')}: {vectors.get('pending')}"
    lines.append(f"{both('向量', 'vectors')}: {counts}, {_megabytes(vectors.get('bytes'))}")
    building = vectors.get("building")
    if isinstance(building, Mapping):
        made = f"{printable(str(building.get('signature')))}, {building.get('vectors')}"
        lines.append(f"{both('正在重新嵌入', 'being embedded anew')}: {made}")
    if vectors.get("waiting"):
        lines.append(both("等待确认：vcp memory reembed", "waits for your word: vcp memory reembed"))
    if trouble := vectors.get("trouble"):
        lines.append(f"{both('向量的问题', 'trouble with vectors')}: {printable(str(trouble))}")
    return lines


def _megabytes(size: Json) -> str:
    return f"{size / 1e6:.1f} MB" if isinstance(size, int | float) else "-"
