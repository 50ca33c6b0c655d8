"""The HTTP client that in-process plugins share: httpx with limits, time-outs and the proxies of our configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import httpx

from app import __version__
from app.errors import UpstreamConnectError
from app.upstream.proxies import EnvironmentProxies

CONNECT_SECONDS = 10.0
SILENCE_SECONDS = 60.0
CONNECTIONS = 64
KEPT_CONNECTIONS = 16
REDIRECTS = 10
PROXIES_LIMIT = 8
"""Different proxies that are kept at a time; more than two are not known to be used."""


def side_client(
    environ: Callable[[], Mapping[str, str]],
    more_headers: Callable[[str], Mapping[str, str]] = lambda _url: {},
) -> httpx.AsyncClient:
    """A client that costs nothing until it is used; redirects are followed only where a request says so.

    ``environ`` gives the environment of now, ``config.env`` included. The usual proxy variables count; nothing else of
    the process's environment does. ``more_headers`` gives those that a request to an address must bear.
    """

    async def complete(request: httpx.Request) -> None:
        request.headers.update(more_headers(str(request.url)))

    return httpx.AsyncClient(
        transport=_SideTransport(environ),
        timeout=httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS),
        headers={"User-Agent": f"vcp-server/{__version__}"},
        max_redirects=REDIRECTS,
        trust_env=False,
        event_hooks={"request": [complete]},
    )


class _SideTransport(httpx.AsyncBaseTransport):
    """One transport for each proxy, made when it is first needed: loading certificates takes its time."""

    def __init__(self, environ: Callable[[], Mapping[str, str]]) -> None:
        self._environ = environ
        self._transports: dict[str | None, httpx.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        try:
            proxy = EnvironmentProxies.read(self._environ()).proxy_for(str(request.url))
        except UpstreamConnectError as error:
            raise httpx.ProxyError(error.message, request=request) from error
        return await (await self._transport(proxy)).handle_async_request(request)

    async def _transport(self, proxy: str | None) -> httpx.AsyncHTTPTransport:
        if proxy not in self._transports:
            if len(self._transports) >= PROXIES_LIMIT:
                await self._transports.pop(next(iter(self._transports))).aclose()
            self._transports[proxy] = httpx.AsyncHTTPTransport(
                limits=httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=KEPT_CONNECTIONS),
                proxy=proxy,
                trust_env=False,
            )
        return self._transports[proxy]

    async def aclose(self) -> None:
        transports, self._transports = self._transports, {}
        for transport in transports.values():
            await transport.aclose()
