"""``.vcp/node_keys.json``: which far nodes have a key of their own, and how the file is changed (B15).

It is an object of ``{name: {"digest", "made", "tools", "revoked"}}``: the SHA-256 of the key in hexadecimal, when it
was made (seconds since the epoch), the names of the tools that the node may bring (null: any), and whether its key was
taken back. Keys themselves are kept nowhere.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from app.config.durable import write_atomic
from app.config.file_lock import held
from app.config.keys import strong_value
from app.config.small_file import read_small
from app.errors import ConfigError, NotFoundError, both
from app.extend import Json
from app.protocol.node_names import NODE_NAME_CHARS, is_node_name

NODE_KEYS_FILE = Path(".vcp") / "node_keys.json"
LOCK_FILE = Path(".vcp") / "node_keys.lock"
"""Held by whoever changes the file, so that two who do it at a time lose nothing of each other."""

LOCK_SECONDS = 10.0
MAX_FILE_BYTES = 4 * 1024 * 1024
MAX_NODES = 1000
MAX_TOOLS = 1000
"""Tools in the list of one node."""

MAX_TOOL_CHARS = 128

_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class NodeKey:
    """A node's key as the file knows it. ``tools`` None: it may bring any."""

    name: str
    digest: str
    made: float
    tools: tuple[str, ...] | None = None
    revoked: bool = False

    @property
    def fingerprint(self) -> str:
        """What people tell two keys apart by."""
        return self.digest[:8]


@dataclass(frozen=True, slots=True)
class NodeKeyFile:
    """What the file says: its usable entries by name, and what is wrong with the others, in words for the log."""

    keys: Mapping[str, NodeKey]
    problems: tuple[str, ...] = ()


def digest_of(key: str) -> str:
    """What is kept of a key; it has 256 bits that nobody can guess, so one round of SHA-256 is enough."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def same_name(name: str) -> str:
    """A form that is equal for names which people would take for one: capitals and wide letters do not count."""
    return unicodedata.normalize("NFKC", name).casefold()


def parse(data: bytes | None) -> NodeKeyFile:
    """The entries of the file (None: there is none). A faulty entry opens nothing and loses only itself.

    Raises ValueError, with the reason, when it is no JSON object, or has too many entries.
    """
    entries = _entries(data)
    keys: dict[str, NodeKey] = {}
    problems: list[str] = []
    for name, entry in entries.items():
        read = _read(name, entry)
        if isinstance(read, NodeKey):
            keys[name] = read
        else:
            problems.append(f"the entry {name[:NODE_NAME_CHARS]!r} {read}")
    return NodeKeyFile(keys, tuple(problems))


def _entries(data: bytes | None) -> dict[str, Json]:
    if data is None:
        return {}
    try:
        value = json.loads(data.decode("utf-8-sig"))
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object of nodes")
    if len(value) > MAX_NODES:
        raise ValueError(f"it has more than {MAX_NODES} nodes")
    return value


def _read(name: str, entry: Json) -> NodeKey | str:
    """The key of an entry, or what is wrong with it."""
    if not is_node_name(name):
        return "has a name that no node can have"
    if not isinstance(entry, dict):
        return "is not an object"
    digest, made, tools, revoked = (entry.get(field) for field in ("digest", "made", "tools", "revoked"))
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        return "has no digest of 64 hexadecimal digits"
    if "tools" not in entry or (
        tools is not None and not (isinstance(tools, list) and all(isinstance(tool, str) for tool in tools))
    ):
        return "has no usable list of tools (null: any tool)"
    if not isinstance(revoked, bool):
        return "does not say whether it is revoked (true or false)"
    if isinstance(made, bool) or not isinstance(made, int | float) or not 0 <= made < 1e11:
        made = 0.0  # only shown to people
    return NodeKey(name, digest, float(made), None if tools is None else tuple(map(str, tools)), revoked)


# ---------------------------------------------------------------------- what changes the file; everything here blocks


def read_node_keys(home: Path) -> NodeKeyFile:
    """What the file of a home says. Raises ConfigError when it cannot be used."""
    return _parsed(home / NODE_KEYS_FILE, _content(home))


def make_node_key(
    home: Path, name: str, now: float, *, tools: tuple[str, ...] | None = None, any_tool: bool = False
) -> str:
    """Give a node a new key and return it; it is shown this once. The key that it had counts no longer.

    Without ``tools`` the list of tools stays, and a new node may bring any; ``any_tool`` lifts the list. Raises
    ConfigError when the name or a tool's cannot be used, or the file.
    """
    check_name(name)
    given = _checked(tools)
    key = strong_value()

    def made(keys: Mapping[str, NodeKey]) -> NodeKey:
        known = keys.get(name)
        if known is None and len(keys) >= MAX_NODES:
            raise ConfigError(both(f"最多 {MAX_NODES} 个节点密钥", f"there are {MAX_NODES} nodes with a key already"))
        alike = next((other for other in keys if other != name and same_name(other) == same_name(name)), None)
        if known is None and alike is not None:
            raise ConfigError(
                both(
                    f"{name!r} 与已有的节点 {alike!r} 只有大小写或全半角之分",
                    f"{name!r} differs from the node {alike!r} in capitals or width of letters only",
                )
            )
        before = None if known is None or any_tool else known.tools
        return NodeKey(name, digest_of(key), float(int(now)), before if given is None else given)

    _change(home, made)
    return key


def limit_node_tools(home: Path, name: str, tools: tuple[str, ...] | None) -> None:
    """Change which tools a node may bring (None: any); its key stays.

    Raises NotFoundError when it has no key that counts, ConfigError when the file or a name cannot be used.
    """
    checked = _checked(tools)

    def limited(keys: Mapping[str, NodeKey]) -> NodeKey:
        known = keys.get(name)
        if known is None or known.revoked:
            raise _unknown(name)
        return replace(known, tools=checked)

    _change(home, limited)


def revoke_node_key(home: Path, name: str) -> None:
    """Take a node's key back; its entry stays, so that people see what it was. Raises NotFoundError, ConfigError."""

    def revoked(keys: Mapping[str, NodeKey]) -> NodeKey:
        known = keys.get(name)
        if known is None:
            raise _unknown(name)
        return replace(known, revoked=True)

    _change(home, revoked)


def check_name(name: str) -> None:
    """ConfigError when no node can have this name."""
    if not is_node_name(name):
        raise ConfigError(
            both(
                f"节点名称 {name[:NODE_NAME_CHARS]!r} 不可用：只能用字母、数字、-、_、.，"
                f"以字母或数字开头，最多 {NODE_NAME_CHARS} 个字符",
                f"{name[:NODE_NAME_CHARS]!r} is no name for a node: letters, digits, '-', '_' and '.', a letter or "
                f"digit first, {NODE_NAME_CHARS} characters at most",
            )
        )


def _unknown(name: str) -> NotFoundError:
    shown = repr(name[:NODE_NAME_CHARS])
    return NotFoundError(both(f"节点 {shown} 没有有效的密钥", f"no node called {shown} has a key that counts"))


def _checked(tools: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if tools is None:
        return None
    for tool in tools:
        if not (0 < len(tool) <= MAX_TOOL_CHARS and tool.isprintable() and "#" not in tool):
            shown = repr(tool[:MAX_TOOL_CHARS])
            raise ConfigError(both(f"工具名称 {shown} 不可用", f"{shown} is no name of a tool"))
    if len(tools) > MAX_TOOLS:
        raise ConfigError(both(f"最多列出 {MAX_TOOLS} 个工具", f"at most {MAX_TOOLS} tools can be listed"))
    return tuple(dict.fromkeys(tools))


def _change(home: Path, change: Callable[[Mapping[str, NodeKey]], NodeKey]) -> None:
    """Put one entry in its place while nobody else changes the file; all others stay as they are written."""
    path = home / NODE_KEYS_FILE
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with held(home / LOCK_FILE, LOCK_SECONDS):
            data = _content(home)
            entry = change(_parsed(path, data).keys)
            entries = {**_entries(data), entry.name: _written(entry)}
            text = json.dumps(entries, indent=2) + "\n"
            write_atomic(path, text.encode(), mode=0o600)
    except OSError as error:
        raise ConfigError(
            both(f"无法更改 {path}", f"{path} cannot be changed") + f": {error.strerror or error}"
        ) from error


def _content(home: Path) -> bytes | None:
    path = home / NODE_KEYS_FILE
    try:
        data = read_small(path, MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(
            both(f"无法读取 {path}", f"{path} cannot be read") + f": {error.strerror or error}"
        ) from error
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(both(f"{path} 过大", f"{path} is larger than {MAX_FILE_BYTES} bytes"))
    return data


def _parsed(path: Path, data: bytes | None) -> NodeKeyFile:
    try:
        return parse(data)
    except ValueError as error:
        raise ConfigError(
            both(
                f"{path} 无法使用，未做改动：请修复它，或移走它（节点须重新生成密钥）",
                f"{path} cannot be used and stays as it is: mend it, or move it away (nodes then need new keys)",
            )
            + f": {error}"
        ) from error


def _written(entry: NodeKey) -> dict[str, Json]:
    return {
        "digest": entry.digest,
        "made": int(entry.made),
        "tools": None if entry.tools is None else list(entry.tools),
        "revoked": entry.revoked,
    }
