"""``agent_map.json`` as people edit it: aliases in their order, notes and unusable entries kept (3.2, P67)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.config.edit_lock import edit_lock
from app.config.edited_file import read_edited, write_edited
from app.errors import BadRequestError, both
from app.extend import Json
from app.prompt.edited_texts import EditedTexts
from app.protocol.json_text import pretty_json

MAP_FILE = "agent_map.json"
MAX_BYTES = 4 * 1024 * 1024
MAX_ROWS = 5_000
NOTE = "//"


@dataclass(frozen=True, slots=True)
class MapRow:
    """An alias and the file that it stands for, a path below ``Agent/``."""

    alias: str
    file: str


@dataclass(frozen=True, slots=True)
class AgentMapText:
    """What stands in the file. ``pairs`` are all entries in order, repeated keys included; ``fingerprint`` names the
    version and is empty without a file."""

    pairs: tuple[tuple[str, Json], ...] = ()
    fingerprint: str = ""

    @property
    def rows(self) -> tuple[MapRow, ...]:
        """The entries that name a file."""
        return tuple(MapRow(alias, value) for alias, value in self.pairs if _is_row(alias, value))


def read_agent_map(home: Path) -> AgentMapText:
    """The map of now; blocks. Raises OSError, FileTooLargeError, and BadRequestError for what is no JSON object."""
    try:
        file = read_edited(home / MAP_FILE, MAX_BYTES)
    except FileNotFoundError:
        return AgentMapText()
    try:
        pairs = json.loads(file.text.removeprefix("\ufeff"), object_pairs_hook=_Pairs)
        if not isinstance(pairs, _Pairs):
            raise ValueError("not a JSON object")
    except (ValueError, RecursionError) as error:
        raise BadRequestError(
            f"{both(f'{MAP_FILE} 不是可用的 JSON 对象', f'{MAP_FILE} is no usable JSON object')}: {error}"
        ) from None
    return AgentMapText(tuple((key, _plain(value)) for key, value in pairs), file.fingerprint)


def write_agent_map(home: Path, value: Mapping[str, Json], expected: str | None) -> str:
    """Store a whole map as it is and return its version; blocks, raises BadRequestError and as ``write_edited``."""
    for alias, file in value.items():
        if not alias.startswith(NOTE) and not isinstance(file, str):
            raise BadRequestError(both(f"Agent {alias[:80]} 应对应文件路径", f"agent {alias[:80]} is no file path"))
    return _write(home, pretty_json(value) + "\n", expected)


def write_rows(home: Path, rows: Sequence[MapRow], expected: str | None) -> str:
    """Store these aliases, in this order; notes and entries that name no file keep their places between them."""
    _check(rows)
    pairs: list[tuple[str, Json]] = []
    left = list(rows)
    for key, value in read_agent_map(home).pairs:
        if _is_row(key, value):
            if left:
                row = left.pop(0)
                pairs.append((row.alias, row.file))
        elif key not in {row.alias for row in rows}:
            pairs.append((key, value))
    pairs += [(row.alias, row.file) for row in left]
    return _write(home, _written(pairs), expected)


def rename_agent(home: Path, texts: EditedTexts, path: str, to: str) -> int:
    """Give an agent's file another path and let its aliases follow; returns how many did.

    A map that cannot be used is told before anything is renamed. Raises as ``read_agent_map`` and ``EditedTexts``.
    """
    read_agent_map(home)
    texts.rename(path, to)
    return _followed(home, path, to)


def _followed(home: Path, path: str, to: str) -> int:
    read = read_agent_map(home)
    wanted = path.replace("\\", "/")
    pairs = [
        (alias, to if isinstance(value, str) and value.replace("\\", "/") == wanted else value)
        for alias, value in read.pairs
    ]
    changed = sum(1 for (_, old), (_, new) in zip(read.pairs, pairs, strict=True) if old != new)
    if changed:
        _write(home, _written(pairs), read.fingerprint)
    return changed


def repeated(rows: Iterable[MapRow]) -> list[str]:
    """Aliases that stand more than once; the last one counts."""
    return [alias for alias, count in Counter(row.alias for row in rows).items() if count > 1]


class _Pairs(list[tuple[str, Json]]):
    """An object that was read, with its repeated keys."""


def _plain(value: Json) -> Json:
    """A value with ordinary objects in it."""
    if isinstance(value, _Pairs):
        return {key: _plain(inner) for key, inner in value}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def _is_row(alias: str, value: Json) -> bool:
    return isinstance(value, str) and not alias.startswith(NOTE)


def _check(rows: Sequence[MapRow]) -> None:
    if len(rows) > MAX_ROWS:
        raise BadRequestError(both(f"最多 {MAX_ROWS} 个 Agent", f"at most {MAX_ROWS} agents"))
    for row in rows:
        if not row.alias or row.alias.startswith(NOTE) or set("{}\r\n") & set(row.alias) or len(row.alias) > 200:
            raise BadRequestError(
                both(f"名称 {row.alias[:80]!r} 不可用", f"the name {row.alias[:80]!r} cannot be used")
            )
        if not row.file.strip() or len(row.file) > 1000:
            raise BadRequestError(both(f"{row.alias} 没有文件", f"{row.alias} has no file"))
    if again := repeated(rows):
        names = "、".join(again[:5])
        raise BadRequestError(both(f"名称重复：{names}", f"the same name twice: {', '.join(again[:5])}"))


def _written(pairs: Sequence[tuple[str, Json]]) -> str:
    lines = ",\n".join(
        f"  {json.dumps(key, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}" for key, value in pairs
    )
    return f"{{\n{lines}\n}}\n" if lines else "{}\n"


def _write(home: Path, text: str, expected: str | None) -> str:
    return write_edited(home / MAP_FILE, text, expected, edit_lock(home))
