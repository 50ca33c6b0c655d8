"""One question to a model API that may become an upstream: does it answer, to this key, and which models has it?"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from typing import Protocol

import httpx

from app import __version__
from app.config.addresses import AddressError, api_address
from app.errors import UpstreamError, both
from app.upstream.model_list import model_names
from app.upstream.urls import MODELS_PATH, redirected

PROBE_SECONDS = 15.0
"""How long an answer may take in all."""

MAX_ANSWER_BYTES = 4 * 1024 * 1024
MAX_MODELS = 2000
"""Names of a list that are kept."""


class ProxyFor(Protocol):
    """Which proxy leads to an address; None for none."""

    def __call__(self, url: str) -> str | None: ...


class ProbeError(UpstreamError):
    """The model API cannot be used like this; the message says why and what to look at, and holds no key."""

    code = "probe_failed"

    def __init__(self, chinese: str, english: str) -> None:
        super().__init__(both(chinese, english))
        self.chinese = chinese
        self.english = english


async def probe(
    address: str, key: str, *, proxy_for: ProxyFor = lambda _url: None, seconds: float = PROBE_SECONDS
) -> list[str]:
    """Ask ``<address>/v1/models`` and return the names of the models, at most ``MAX_MODELS``.

    ``address`` is as people write it. Redirects are not followed, since a key would go along. Raises ProbeError.
    """
    try:
        url = api_address(address) + MODELS_PATH
    except AddressError as error:
        raise ProbeError(f"地址{error.chinese}", f"the address {error.english}") from None
    if not key.isprintable():
        raise ProbeError("密钥含有换行或控制字符", "the key has a line break or a control character in it")
    headers = {b"User-Agent": f"vcp-server/{__version__}".encode(), b"Accept": b"application/json"}
    if key:
        headers[b"Authorization"] = b"Bearer " + key.encode("utf-8", "replace")
    try:
        async with (
            asyncio.timeout(seconds),
            httpx.AsyncClient(timeout=None, trust_env=False, proxy=proxy_for(url)) as client,
            client.stream("GET", url, headers=headers) as answer,
        ):
            body = await _body(answer) if answer.status_code == 200 else b""
            return _models(answer, body)
    except TimeoutError:
        raise ProbeError(
            f"{seconds:g} 秒内没有回答：请检查地址、端口和网络（或代理设置 UpstreamProxy）",
            f"no answer within {seconds:g} s: look at the address, the port and the network (or UpstreamProxy)",
        ) from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as fault:
        raise _unreachable(fault, url) from None


async def _body(answer: httpx.Response) -> bytes:
    parts = []
    size = 0
    async for part in answer.aiter_bytes():
        size += len(part)
        if size > MAX_ANSWER_BYTES:
            raise ProbeError("回答过大，这不是模型列表", "the answer is too long to be a list of models")
        parts.append(part)
    return b"".join(parts)


def _models(answer: httpx.Response, body: bytes) -> list[str]:
    status = answer.status_code
    if status in (401, 403):
        raise ProbeError(
            f"密钥被拒绝（状态码 {status}）：请检查密钥，以及它是否属于这个服务",
            f"the key is refused (status {status}): look whether it is complete and belongs to this service",
        )
    if status == 404:
        raise ProbeError(
            "该地址没有 /v1/models（状态码 404）：请填写 /v1 之前的基础地址",
            "there is no /v1/models at this address (status 404): give the base address, what stands before /v1",
        )
    if 300 <= status < 400:
        chinese, _, english = redirected(answer.headers.get("location", "")).partition(" / ")
        raise ProbeError(chinese, english)
    if status != 200:
        raise ProbeError(f"服务返回状态码 {status}", f"the service answers with status {status}")
    names = model_names(body)
    if not names:
        raise ProbeError(
            "回答里没有模型列表：地址可能是网页而不是接口",
            "the answer holds no list of models: the address may be that of a web page and not of an API",
        )
    return names[:MAX_MODELS]


def _unreachable(fault: Exception, url: str) -> ProbeError:
    causes = list(_causes(fault))
    reasons = " ".join(str(cause) for cause in causes)
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes) or "CERTIFICATE_VERIFY" in reasons:
        return ProbeError(
            "服务器的证书无法验证：请检查地址和系统时间，自签名证书需要先加入系统信任",
            "the certificate cannot be verified: look at the address and the clock; one of your own has to be trusted "
            "by the system first",
        )
    if any(isinstance(cause, ssl.SSLError) for cause in causes) or "SSL" in reasons:
        return ProbeError(
            "该端口不使用 TLS：地址也许应以 http:// 开头",
            "there is no TLS at this port: the address may have to begin with http://",
        )
    if any(isinstance(cause, socket.gaierror) for cause in causes) or "Name or service" in reasons:
        return ProbeError(
            "找不到这个主机名：请检查拼写和网络", "the host is not found: look at its spelling and the network"
        )
    if isinstance(fault, httpx.ProxyError):
        return ProbeError("代理无法使用：请检查 UpstreamProxy", "the proxy cannot be used: look at UpstreamProxy")
    if isinstance(fault, httpx.ConnectError):
        return ProbeError(
            "连接被拒绝：服务没有运行，或端口不对",
            "no connection: the service does not run, or the port is another one",
        )
    if isinstance(fault, httpx.RemoteProtocolError) and url.startswith("http://"):
        return ProbeError(
            "回答不是 HTTP：地址也许应以 https:// 开头",
            "the answer is no HTTP: the address may have to begin with https://",
        )
    return ProbeError("连接中断，请再试一次", "the connection broke off; try again")


def _causes(fault: BaseException | None) -> Iterator[BaseException]:
    while fault is not None:
        yield fault
        fault = fault.__cause__ or fault.__context__
