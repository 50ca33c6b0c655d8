"""Checks of what connects over WebSockets: the server's side of nodes and tool clients, and ``vcp node`` (6.4, D63)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from app.config.keys import PLACEHOLDERS
from app.config.snapshot import CONFIG_FILE
from app.errors import ConfigError
from app.home.checks.findings import Finding, Installation, Level, Topic
from app.hub.nodes.key_file import NODE_KEYS_FILE, NodeKeyFile, read_node_keys
from app.plugins.discovery import PluginSet
from app.protocol.loopback import is_loopback
from app.protocol.node_names import NODE_NAME_CHARS, is_node_name

NODE_SCHEMES = ("ws", "wss", "http", "https")
KEY_IN_ADDRESS = "/VCP_Key="
"""What stands before a key that somebody left in the address (6.1)."""


def check_connections(installation: Installation, plugins: PluginSet) -> Iterator[Finding]:
    """Findings about nodes, keys of nodes and the port of tool clients."""
    yield from _node_keys(installation)
    yield from _tool_socket(installation)
    yield from _main_server(installation, plugins)
    yield from _file_roots(installation)


def _setting(level: Level, subject: str, chinese: str, english: str, topic: Topic = Topic.SETTINGS) -> Finding:
    return Finding(level, topic, chinese, english, CONFIG_FILE, subject=subject)


def _node_keys(installation: Installation) -> Iterator[Finding]:
    place = NODE_KEYS_FILE.as_posix()
    try:
        file = read_node_keys(installation.home)
    except ConfigError as error:
        chinese, _, english = error.message.partition(" / ")
        yield Finding(Level.ERROR, Topic.KEYS, chinese, english, place)
        file = NodeKeyFile({})
    for problem in file.problems:
        yield Finding(
            Level.ERROR,
            Topic.KEYS,
            "该节点的条目无法使用，它无法连接，见下一行；vcp keys node 可重新生成",
            f"{problem}: this node cannot come in; vcp keys node makes a new key",
            place,
        )
    good = [entry for entry in file.keys.values() if not entry.revoked]
    if installation.config.settings.node_keys_only and not good:
        yield _setting(
            Level.WARNING,
            "NodeKeysOnly",
            "要求节点使用各自的密钥，但还没有任何节点密钥：vcp keys node 名称",
            "nodes need keys of their own and none has one, so no node can connect: vcp keys node NAME",
            Topic.KEYS,
        )
    for entry in good:
        if entry.tools == ():
            yield Finding(
                Level.NOTE,
                Topic.KEYS,
                "该节点的工具名单为空，它不能提供任何工具",
                "the list of this node's tools is empty: it may bring none",
                place,
                subject=entry.name,
            )


def _tool_socket(installation: Installation) -> Iterator[Finding]:
    settings = installation.config.settings
    if not settings.tool_socket_port:
        return
    reachable = not is_loopback(settings.tool_socket_host)
    if reachable and not settings.tool_socket_token:
        yield _setting(
            Level.ERROR,
            "ToolSocketHost",
            f"{settings.tool_socket_host} 允许其他机器连接，但未设置 ToolSocketToken：服务器会拒绝启动；"
            "vcp keys new ToolSocketToken 可生成一个",
            f"{settings.tool_socket_host} lets other machines in and there is no ToolSocketToken: the server refuses "
            "to start; vcp keys new ToolSocketToken makes one",
        )
    if settings.tool_socket_port == settings.port:
        yield _setting(
            Level.ERROR,
            "ToolSocketPort",
            "与 PORT 相同：每个端口只能用一次",
            "is the same as PORT: each needs a port of its own",
        )
    if "*" in settings.tool_socket_origins and not settings.tool_socket_token:
        yield _setting(
            Level.WARNING,
            "ToolSocketOrigins",
            "* 且没有 ToolSocketToken：本机浏览器打开的任何网页都能使用工具",
            "is * and there is no ToolSocketToken: every page that a browser of this machine opens can use the tools",
        )


def _main_server(installation: Installation, plugins: PluginSet) -> Iterator[Finding]:
    settings = installation.config.settings
    address = settings.main_server_url
    if settings.node_name and not is_node_name(settings.node_name):
        yield _setting(
            Level.WARNING,
            "ServerName",
            f"不是可用的节点名称：字母、数字、-、_、.，以字母或数字开头，最多 {NODE_NAME_CHARS} 个字符",
            f"is no name for a node: letters, digits, '-', '_', '.', a letter or digit first, {NODE_NAME_CHARS} "
            "characters at most",
        )
    if not address:
        return
    scheme, host = _scheme_and_host(address)
    if scheme not in NODE_SCHEMES or not host:
        yield _setting(
            Level.ERROR,
            "Main_Server_URL",
            "不是可用的地址，应形如 wss://chat.example.com 或 ws://192.168.1.5:6005",
            "is no address; write wss://chat.example.com or ws://192.168.1.5:6005",
        )
    elif scheme in ("ws", "http") and not is_loopback(host):
        yield _setting(
            Level.NOTE,
            "Main_Server_URL",
            "未加密：密钥和内容以明文传输；其他网络请使用 wss://",
            "is not encrypted: key and contents are readable on the way; use wss:// beyond a network of your own",
        )
    key = settings.socket_key or plugins.socket_key or installation.environ.get("VCP_KEY", "")
    if not key and KEY_IN_ADDRESS not in address:
        yield _setting(
            Level.WARNING,
            "Main_Server_URL",
            "没有连接主服务器的密钥：设置环境变量 VCP_KEY 或 VCP_Key，或使用 vcp node --key-file",
            "there is no key for the main server: set VCP_KEY in the environment, or VCP_Key, or use --key-file",
        )
    elif key.lower() in PLACEHOLDERS:
        yield _setting(
            Level.WARNING,
            "VCP_Key",
            "仍是示例中的占位值，主服务器不会接受",
            "is still the placeholder of the example; no main server will take it",
            Topic.KEYS,
        )


def _scheme_and_host(address: str) -> tuple[str, str]:
    """Both of an address as ``vcp node`` reads it, without a scheme ``ws``; empty for what is none."""
    try:
        parts = urlsplit(address if "://" in address else f"ws://{address}")
        return parts.scheme.lower(), (parts.hostname or "") if parts.port != 0 else ""
    except ValueError:
        return "", ""


def _file_roots(installation: Installation) -> Iterator[Finding]:
    home = installation.home.resolve()
    for root in installation.config.settings.node_file_roots:
        folder = _folder(installation.home, root)
        if folder is not None and folder == Path(folder.anchor):
            yield _setting(
                Level.ERROR,
                "NodeFileRoots",
                f"{root} 是整个文件系统：主服务器可以读取本机上该用户能读的一切",
                f"{root} is the whole file system: the main server may read whatever this user can",
            )
        elif folder is None or not folder.is_dir():
            yield _setting(
                Level.WARNING,
                "NodeFileRoots",
                f"目录 {root} 不存在，其中的文件无法提供",
                f"{root} is no folder, no file in it can be served",
            )
        elif home == folder or home.is_relative_to(folder):
            yield _setting(
                Level.ERROR,
                "NodeFileRoots",
                f"{root} 包含本安装目录：主服务器可以读取 config.env 和所有密钥",
                f"{root} holds this installation: the main server may read config.env and all keys",
            )


def _folder(home: Path, root: str) -> Path | None:
    """Where a root leads, or None for what no path can be."""
    try:
        return (home / root).resolve()
    except (OSError, RuntimeError):  # RuntimeError: links that lead in a circle
        return None
