"""Checks of keys and passwords, and of the rights of files that hold them; values are never told (D42, D86)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from app.config.keys import KEY_FILE, PLACEHOLDERS
from app.config.snapshot import CONFIG_FILE
from app.errors import ConfigError
from app.home.checks.findings import Finding, Installation, Level, Topic, entries
from app.home.known_keys import OWN_SECRETS, KnownKey, known_keys
from app.hub.nodes.key_file import NODE_KEYS_FILE
from app.plugins.discovery import PluginSet
from app.protocol.loopback import is_loopback

SHORTEST = 16
"""Characters of a key that programs send; a password that a person types may be shorter."""

SHORTEST_PASSWORD = 8

_OWN = ("Key", *OWN_SECRETS)


def check_keys(installation: Installation, plugins: PluginSet) -> Iterator[Finding]:
    """Findings about keys and their files."""
    try:
        found = {key.name: key for key in known_keys(installation.config, plugins, installation.environ)}
    except ConfigError as error:
        chinese, _, english = error.message.partition(" / ")
        yield Finding(Level.ERROR, Topic.KEYS, chinese, english, KEY_FILE.as_posix())
        found = {}
    host = installation.config.settings.host
    for name in _OWN:
        key = found.get(name)
        if key is not None and key.value:
            yield from _weak(key, reachable=not is_loopback(host))
    yield from _equal([found[name] for name in _OWN if name in found and found[name].value])
    if found and not found["Key"].value:
        yield Finding(
            Level.NOTE,
            Topic.KEYS,
            "未设置 Key：第一次启动时会自动生成",
            "no Key is configured: one is generated at the first start",
            subject="Key",
        )
    if found and not found["AdminPassword"].value:
        chinese, english = (
            ("第一次启动时会自动生成", "one is generated at the first start")
            if is_loopback(host)
            else (
                "管理面板不开放；vcp keys new AdminPassword 可生成一个",
                "the admin panel is closed; vcp keys new AdminPassword makes one",
            )
        )
        yield Finding(
            Level.NOTE,
            Topic.KEYS,
            f"未设置 AdminPassword：{chinese}",
            f"no AdminPassword is set: {english}",
            subject="AdminPassword",
        )
    if os.name != "nt":
        yield from _open_files(installation)


def _weak(key: KnownKey, *, reachable: bool) -> Iterator[Finding]:
    def finding(level: Level, chinese: str, english: str) -> Finding:
        return Finding(level, Topic.KEYS, chinese, english, key.source, subject=key.name)

    shortest = SHORTEST_PASSWORD if key.name == "AdminPassword" else SHORTEST
    if key.value.lower() == "undefined":
        yield finding(
            Level.ERROR, "值是 undefined，服务器会拒绝启动", 'the value is "undefined"; the server refuses to start'
        )
    elif key.value.lower() in PLACEHOLDERS:
        yield finding(
            Level.ERROR if reachable else Level.WARNING,
            "仍是示例中的占位值，请换成自己的密钥",
            "is still the placeholder of the example; choose a key of your own",
        )
    elif len(key.value) < shortest:
        yield finding(
            Level.WARNING,
            f"少于 {shortest} 个字符，容易被猜中；vcp keys new 可生成新的",
            f"has fewer than {shortest} characters and can be guessed; vcp keys new makes a strong one",
        )


def _equal(keys: list[KnownKey]) -> Iterator[Finding]:
    for place, key in enumerate(keys):
        other = next((other for other in keys[:place] if other.value == key.value), None)
        if other is not None:
            yield Finding(
                Level.WARNING,
                Topic.KEYS,
                f"与 {other.name} 相同：知道其中一个的人就知道另一个",
                f"is the same as {other.name}: who knows one knows the other",
                key.source,
                subject=key.name,
            )


def _open_files(installation: Installation) -> Iterator[Finding]:
    """Files with secrets that other users of this machine may read."""
    home = installation.home
    paths = [home / CONFIG_FILE, home / KEY_FILE, home / NODE_KEYS_FILE, home / "Plugin" / "UserAuth" / "code.bin"]
    paths += [Path(entry.path) / CONFIG_FILE for entry in entries(home / "Plugin")]
    readable = [path for path in paths if _others_may_read(path)]
    if readable:
        names = ", ".join(installation.shown(path) for path in readable[:10])
        more = f", … (+{len(readable) - 10})" if len(readable) > 10 else ""
        yield Finding(
            Level.WARNING,
            Topic.KEYS,
            f"本机其他用户可以读取含密钥的文件，可用 chmod 600 收紧：{names}{more}",
            f"other users of this machine may read files that hold secrets; chmod 600 closes them: {names}{more}",
            installation.shown(readable[0]),
        )


def _others_may_read(path: Path) -> bool:
    try:
        status = path.stat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and bool(status.st_mode & 0o077) and status.st_size > 0
