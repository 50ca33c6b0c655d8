"""The key that clients must send: configured or generated, and fit for the address it is offered on (D42, B6)."""

from __future__ import annotations

import logging
import secrets
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from app.config.durable import create_atomic, write_atomic
from app.config.small_file import read_small
from app.config.snapshot import Config
from app.errors import ConfigError, both
from app.protocol.loopback import is_loopback

log = logging.getLogger(__name__)

PLACEHOLDERS = frozenset({"please-change-me", "please-change-me-too", "please-change-me-as-well"})
"""The keys that ``config.env.example`` shows; everybody knows them."""

KEY_FILE = Path(".vcp") / "server.key"
"""Where a generated key lives, below the home."""

ADMIN_FILE = Path(".vcp") / "admin.password"
"""Where a generated password of the administrator lives, below the home."""

ADMIN_NAME = "admin"
"""The administrator's name beside a generated password, where ``AdminUsername`` says none."""

_KEY_BYTES = 32
_MAX_KEY_FILE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class ServerKey:
    """The key in force. ``path`` is the file it came from when it is a generated one, else None."""

    value: str = field(repr=False)
    generated: bool
    path: Path | None


def server_key(config: Config) -> ServerKey:
    """The configured ``Key``, else the one generated at an earlier start, else a new one.

    A generated key is kept in ``KEY_FILE`` with mode 0600 in a folder of mode 0700. It may be shown on a terminal while
    the server listens on loopback; it never goes into a log (D42).

    Raises ConfigError if no key is configured and the file can be neither read nor made.
    """
    if config.settings.key:
        return ServerKey(config.settings.key, generated=False, path=None)
    path = config.home / KEY_FILE
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        value = _stored(path) or _created(path)
    except OSError as error:
        raise ConfigError(
            f"no Key is configured and {path} cannot keep a generated one ({error.strerror or error}); "
            "set Key in config.env or in the environment. "
            "未设置 Key，且无法保存自动生成的密钥，请在 config.env 中设置 Key。"
        ) from error
    return ServerKey(value, generated=True, path=path)


def admin_password(config: Config) -> str:
    """The generated password of the administrator, made when there is none; empty where none is generated (D86).

    That is where ``AdminPassword`` is set, where the server listens on more than loopback, and where no password can be
    kept, which is logged: there the panel stays closed. It is kept like a generated key.
    """
    if config.settings.admin_password or not is_loopback(config.settings.host):
        return ""
    path = config.home / ADMIN_FILE
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _stored(path) or _created(path)
    except OSError as error:
        log.warning("%s cannot keep a generated AdminPassword: %s", path, error.strerror or error)
        return ""


def with_administrator(config: Config, password: str) -> Config:
    """The configuration with the generated ``password`` in the place of a missing ``AdminPassword``.

    Only the settings know it; plugins do not see it in their environment.
    """
    settings = config.settings
    if not password or settings.admin_password:
        return config
    named = {"admin_username": settings.admin_username or ADMIN_NAME, "admin_password": password}
    return replace(config, settings=settings.model_copy(update=named))


def stored_admin_password(home: Path) -> str:
    """The generated password of a home, empty if there is none; nothing is changed or made. Raises OSError."""
    return _read(home / ADMIN_FILE)


def stored_key(home: Path) -> str:
    """The generated key of a home, empty if there is none; nothing is changed or made. Raises OSError."""
    return _read(home / KEY_FILE)


def replace_key(config: Config) -> ServerKey:
    """Put a new generated key in the place of the old one, atomically; a server that runs keeps the one it has.

    Raises ConfigError if ``Key`` is configured, since a generated one would have no effect, or nothing can be written.
    """
    if config.settings.key:
        where = "config.env" if "Key" in config.file_keys else both("环境变量", "the process environment")
        raise ConfigError(
            both(
                f"Key 已在 {where} 中设置，自动生成的密钥不会生效：请在那里修改 Key，或删除它后再运行此命令",
                f"Key is configured in {where}, so a generated key would have no effect: change Key there, or remove "
                "it and run this command again",
            )
        )
    path = config.home / KEY_FILE
    value = strong_value()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(path, f"{value}\n".encode(), mode=0o600)
    except OSError as error:
        raise ConfigError(
            both(f"无法写入 {path}", f"{path} cannot be written") + f": {error.strerror or error}"
        ) from error
    return ServerKey(value, generated=True, path=path)


def strong_value() -> str:
    """A new secret of letters, digits, ``-`` and ``_`` that nobody can guess (256 bits)."""
    return secrets.token_urlsafe(_KEY_BYTES)


def check_bind(config: Config) -> None:
    """Refuse keys that are none.

    ``undefined`` is refused everywhere: it is what a client sends that has no key. The placeholders of the example are
    refused too, unless the server listens on loopback. Raises ConfigError.
    """
    values = config.settings
    keys = {
        "Key": values.key,
        "Image_Key": values.image_key,
        "File_Key": values.file_key,
        "VCP_Key": values.socket_key,
        "ToolSocketToken": values.tool_socket_token,
    }
    for name, value in keys.items():
        if value.lower() == "undefined":
            raise ConfigError(
                f'{name} is "undefined", which clients without a key send; choose another one. '
                f'{name} 不能是 "undefined"，请换一个密钥。'
            )
        if value.lower() in PLACEHOLDERS and not is_loopback(values.host):
            raise ConfigError(
                f"{name} is still the placeholder of config.env.example while HOST={values.host} lets other machines "
                "in; choose a key of your own, or set HOST=127.0.0.1. "
                f"{name} 仍是示例中的占位值，而 HOST={values.host} 允许其他机器访问："
                "请改成自己的密钥，或设置 HOST=127.0.0.1。"
            )


def check_tool_port(config: Config) -> None:
    """Refuse a port of tool clients that other machines reach without a token (D63), or that is the server's own.

    Raises ConfigError.
    """
    values = config.settings
    if values.tool_socket_port and values.tool_socket_port == values.port:
        raise ConfigError(
            both(
                f"ToolSocketPort 与 PORT 相同（{values.port}）：请换一个端口，或去掉 ToolSocketPort",
                f"ToolSocketPort is the same as PORT ({values.port}); choose another one, or remove ToolSocketPort",
            )
        )
    if values.tool_socket_port and not values.tool_socket_token and not is_loopback(values.tool_socket_host):
        raise ConfigError(
            both(
                f"ToolSocketHost={values.tool_socket_host} 允许其他机器访问，但没有设置 ToolSocketToken："
                "请设置令牌，或设置 ToolSocketHost=127.0.0.1",
                f"ToolSocketHost={values.tool_socket_host} lets other machines in while ToolSocketToken is empty; set "
                "a token, or ToolSocketHost=127.0.0.1",
            )
        )


def _created(path: Path) -> str:
    """A new key in the file, or that of another process which was first."""
    content = f"{strong_value()}\n".encode()
    if not create_atomic(path, content, mode=0o600) and not _stored(path):
        write_atomic(path, content, mode=0o600)  # blank or damaged: there is no key in it to lose
    return _stored(path)


def _stored(path: Path) -> str:
    """The key in the file; empty if there is none in it. Closes the file to others where it is open to them."""
    value = _read(path)
    if value and path.stat().st_mode & 0o077:
        # A key that was put there from outside may lie on a read-only mount; it is still the key.
        with suppress(OSError):
            path.chmod(0o600)
    return value


def _read(path: Path) -> str:
    try:
        data = read_small(path, _MAX_KEY_FILE_BYTES)
    except FileNotFoundError:
        return ""
    try:
        value = data.decode("ascii").strip()
    except UnicodeDecodeError:
        return ""
    return value if value.isprintable() and " " not in value else ""
