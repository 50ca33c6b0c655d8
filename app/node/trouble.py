"""Why there is no connection to the main server, in words that show the way out. No word of it holds a key."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass

from websockets.exceptions import ConnectionClosed, InvalidMessage, InvalidStatus, ProxyError

from app.errors import both
from app.node.main_server import MainServer

REASON_CHARS = 120


@dataclass(frozen=True, slots=True)
class Trouble:
    """What went wrong. ``refused``: it stays like that until somebody changes something."""

    chinese: str
    english: str
    refused: bool = False

    def __str__(self) -> str:
        return both(self.chinese, self.english)


def trouble_of(error: Exception, server: MainServer) -> Trouble:
    """What an exception of connecting or of a connection means.

    The words of exceptions are not passed on where they may hold the address, and with it the key.
    """
    if isinstance(error, InvalidStatus):
        return _status(error.response.status_code, error.response.headers.get("Location", ""))
    if isinstance(error, ConnectionClosed):
        return _closed(error)
    if isinstance(error, ProxyError):
        return Trouble("代理无法连接主服务器", "the proxy does not reach the main server")
    if isinstance(error, InvalidMessage):
        return Trouble(
            "主服务器未作应答就断开：旧版服务器在密钥（VCP_Key）或路径错误时会如此",
            "the main server hung up without an answer; older ones do so when the key (VCP_Key) or the path is wrong",
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        why = getattr(error, "verify_message", "") or "?"
        return Trouble(
            f"主服务器的证书不被信任（{why}）；自签证书请用 --ca 或 NodeCaFile 指定",
            f"the main server's certificate is not trusted ({why}); name its authority with --ca or NodeCaFile",
        )
    if isinstance(error, ssl.SSLError):
        return Trouble(
            "TLS 连接失败；主服务器若不使用 TLS，请改用 ws://",
            f"TLS failed ({getattr(error, 'reason', None) or '?'}); if the main server has none, write ws://",
        )
    if isinstance(error, socket.gaierror):
        return Trouble(
            f"找不到主机 {server.host}；请检查 --url / Main_Server_URL",
            f"there is no host {server.host}; check --url or Main_Server_URL",
        )
    if isinstance(error, TimeoutError):
        return Trouble("主服务器没有及时应答", "the main server did not answer in time")
    if isinstance(error, OSError):
        why = error.strerror or type(error).__name__
        return Trouble(f"无法连接 {server.shown}：{why}", f"{server.shown} cannot be reached: {why}")
    name = type(error).__name__
    return Trouble(f"{server.shown} 不是 WebSocket 服务器（{name}）", f"{server.shown} serves no WebSockets ({name})")


def _status(status: int, location: str) -> Trouble:
    if status == 401:
        return Trouble(
            "密钥错误 (401)：请检查 VCP_KEY、--key-file 或 config.env 中的 VCP_Key；主服务器上可用 vcp keys 查看",
            "the key is wrong (401): check VCP_KEY, --key-file or VCP_Key in config.env against the main server's",
            refused=True,
        )
    if status == 403:
        return Trouble(
            "主服务器拒绝本机 (403)：本机地址被封禁，或主服务器要求节点使用自己的密钥",
            "the main server lets this machine not in (403): its address is blocked, or nodes need a key of their own",
            refused=True,
        )
    if status == 404:
        return Trouble(
            "该地址没有节点服务 (404)：请检查 --url / Main_Server_URL 的路径",
            "nodes are not served at this address (404); check the path in --url or Main_Server_URL",
            refused=True,
        )
    if 300 <= status < 400:
        scheme = location.partition("://")[0].lower()
        kind = scheme if scheme in ("http", "https", "ws", "wss") else ""
        return Trouble(
            f"主服务器重定向到别处 ({status}{', ' + kind if kind else ''})：请直接填写其最终地址",
            f"the main server redirects ({status}{', to ' + kind if kind else ''}): write its final address",
            refused=True,
        )
    return Trouble(f"主服务器暂不接受连接 ({status})", f"the main server takes no connection now ({status})")


def _closed(error: ConnectionClosed) -> Trouble:
    close = error.rcvd or error.sent
    if close is None:
        return Trouble("与主服务器的连接中断", "the connection to the main server broke off")
    reason = repr(close.reason[:REASON_CHARS]) if close.reason else ""
    by = "the main server closed the connection" if error.rcvd else "the connection to the main server was closed"
    by_zh = "主服务器关闭了连接" if error.rcvd else "与主服务器的连接已关闭"
    code = f"{int(close.code)}{' ' + reason if reason else ''}"
    return Trouble(f"{by_zh} ({code})", f"{by} ({code})")
