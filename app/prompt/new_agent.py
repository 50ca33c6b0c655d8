"""Writing a new agent: its text below ``Agent/`` and its entry in ``agent_map.json``."""

from __future__ import annotations

import json
from pathlib import Path

from app.config.edited_file import read_edited, write_edited
from app.errors import BadRequestError, VcpError, both
from app.prompt.files import contained

MAP_FILE = "agent_map.json"
FOLDER = "Agent"
LOCK_FILE = Path(".vcp") / "agents.lock"

MAX_NAME_CHARS = 60
MAX_TEXT_BYTES = 1024 * 1024

_FORBIDDEN = frozenset('{}[]<>:"/\\|?*\r\n\t\0')


class AgentTakenError(VcpError):
    """There is another agent of this name already."""

    status = 409
    code = "agent_taken"

    def __init__(self, name: str) -> None:
        super().__init__(both(f"已有名为 {name} 的 Agent，内容不同", f"there is another agent called {name} already"))


def agent_name(name: str) -> str:
    """The name without blanks around it; raises BadRequestError when it cannot name an agent and its file."""
    name = name.strip()
    if not name or len(name) > MAX_NAME_CHARS or not name.isprintable() or _FORBIDDEN & set(name) or name[0] == ".":
        raise BadRequestError(
            both(
                f'名称需为 1 到 {MAX_NAME_CHARS} 个字符，不能含有 / \\ : * ? " < > | {{ }} [ ]，也不能以 . 开头',
                f'a name has 1 to {MAX_NAME_CHARS} characters, none of / \\ : * ? " < > | {{ }} [ ], and no . at its '
                "beginning",
            )
        )
    return name


def write_agent(home: Path, name: str, text: str, *, replace: bool = False) -> str:
    """Write ``Agent/<name>.txt`` and let the alias ``name`` stand for it; returns the path below the home. Blocks.

    A file that says something else is replaced only with ``replace``, else AgentTakenError is raised and nothing has
    changed; so is an alias that stands for another file. Notes and order of the map stay. Raises BadRequestError too
    (a name that is none, a map that is no JSON object), EditConflictError when somebody else writes at the same moment,
    and OSError.
    """
    name = agent_name(name)
    if len(text.encode("utf-8", "surrogateescape")) > MAX_TEXT_BYTES:
        raise BadRequestError(both("文本超过 1 MiB", "the text has more than 1 MiB"))
    file = f"{name}.txt"
    folder = home / FOLDER
    lock = home / LOCK_FILE
    folder.mkdir(exist_ok=True)
    lock.parent.mkdir(mode=0o700, exist_ok=True)
    path = contained(folder, file)
    known = _read(home / MAP_FILE)
    new_map = with_agent(known[0], name, file, replace=replace)
    there, version = _read(path)
    if version and there != text and not replace:
        raise AgentTakenError(name)
    if there != text or not version:
        write_edited(path, text, version, lock)
    if new_map != known[0]:
        write_edited(home / MAP_FILE, new_map, known[1], lock)
    return f"{FOLDER}/{file}"


def with_agent(text: str, name: str, file: str, *, replace: bool = False) -> str:
    """The text of a map in which ``name`` stands for ``file``; its order and notes stay, also those that repeat (P67).

    Raises BadRequestError when the map is no JSON object, AgentTakenError when the name stands for another file and
    ``replace`` is not given.
    """
    try:
        pairs = json.loads(text, object_pairs_hook=_Pairs) if text.strip() else _Pairs()
    except (ValueError, RecursionError):
        pairs = None
    if not isinstance(pairs, _Pairs):
        raise BadRequestError(
            both(f"{MAP_FILE} 不是 JSON 对象，请先改正", f"{MAP_FILE} is no JSON object; mend it first")
        )
    known = dict(pairs).get(name)
    if known == file:
        return text
    if known is not None and not replace:
        raise AgentTakenError(name)
    kept = [(key, value) for key, value in pairs if key != name]
    lines = (
        f"  {json.dumps(key, ensure_ascii=False)}: {json.dumps(_plain(value), ensure_ascii=False)}"
        for key, value in (*kept, (name, file))
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


class _Pairs(list[tuple[str, object]]):
    """A JSON object with its keys in order, those that repeat included."""


def _plain(value: object) -> object:
    if isinstance(value, _Pairs):
        return {key: _plain(inner) for key, inner in value}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def _read(path: Path) -> tuple[str, str]:
    """Text and version of a file, both empty when there is none."""
    try:
        found = read_edited(path, MAX_TEXT_BYTES * 4)
    except FileNotFoundError:
        return "", ""
    return found.text.removeprefix("\ufeff"), found.fingerprint
