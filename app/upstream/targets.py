"""Which model APIs serve a model, in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from app.config.snapshot import Config
from app.config.upstreams import NamedUpstream
from app.errors import ConfigError, ModelNotServedError, both
from app.extend import UpstreamResolver, UpstreamTarget
from app.protocol.loopback import is_loopback
from app.upstream.proxies import proxy_url
from app.upstream.urls import base_url

_SHOWN_CHARS = 100

STAR = "*"
"""In a pattern: any text. A pattern of nothing else: whatever no list names."""


class SingleUpstream:
    """The ``UpstreamResolver`` of ``API_URL``, ``API_Key`` and ``UpstreamProxy``: the same target for every model.

    Raises ``ConfigError`` that names the setting when no request can be made with it (D12).
    """

    def __init__(self, api_url: str, api_key: str, proxy: str | None = None, max_running: int | None = None) -> None:
        key = api_key.strip()
        if not key.isprintable():
            raise ConfigError(
                both(
                    "API_Key 里有换行或控制字符，请把密钥写在一行",
                    "API_Key has a line break or a control character in it; write the key on one line",
                )
            )
        self._targets = (
            UpstreamTarget(
                base_url=base_url(api_url),
                api_key=key,
                proxy=proxy_url(proxy or "", "UpstreamProxy"),
                max_running=max_running,
            ),
        )

    def resolve(self, model: str) -> Sequence[UpstreamTarget]:
        """The target for this model."""
        return self._targets

    def targets(self) -> Sequence[UpstreamTarget]:
        """The one target."""
        return self._targets


class OrderedUpstreams:
    """The ``UpstreamResolver`` of several upstreams.

    A model that lists name is served by the upstreams of these lists, in order, and by nobody else: a text for a model
    at home must not reach a service because the machine at home is off. All other models are served by those without a
    list, or with ``*`` in it.
    """

    def __init__(self, upstreams: Sequence[NamedUpstream]) -> None:
        self._targets = tuple(upstream.target for upstream in upstreams)
        self._lists = tuple((upstream.target, _parts(upstream.models)) for upstream in upstreams)
        self._others = tuple(
            upstream.target for upstream in upstreams if not upstream.models or not all(map(_names, upstream.models))
        )

    def resolve(self, model: str) -> Sequence[UpstreamTarget]:
        """The targets for this model; ``ModelNotServedError`` when there is none."""
        name = model.casefold()
        named = [target for target, patterns in self._lists if any(_fits(pattern, name) for pattern in patterns)]
        if found := named or self._others:
            return found
        if not model:
            raise ModelNotServedError(
                both(
                    "请求没有写明模型，而没有上游提供所有模型：请写明 model，或设置 API_URL",
                    "the request names no model and no upstream serves every model: name one, or set API_URL",
                )
            )
        shown = model if len(model) <= _SHOWN_CHARS else model[:_SHOWN_CHARS] + "…"
        raise ModelNotServedError(
            both(
                f'没有上游提供模型 "{shown}"：请设置 API_URL，或写入某个 Upstream_…_Models',
                f'no upstream serves the model "{shown}": set API_URL, or add it to an Upstream_…_Models',
            )
        )

    def targets(self) -> Sequence[UpstreamTarget]:
        """All targets, in order."""
        return self._targets


def resolver_of(config: Config) -> UpstreamResolver:
    """The resolver of a configuration: that of ``API_URL`` comes first among those that serve every model.

    Raises ``ConfigError`` when no request can be made with ``API_URL``, ``API_Key`` or ``UpstreamProxy``, or when there
    is no model API at all.
    """
    settings = config.settings
    proxy = settings.upstream_proxy or None
    upstreams: list[NamedUpstream] = []
    if settings.api_url or not config.upstreams:
        single = SingleUpstream(settings.api_url, settings.api_key, proxy, settings.api_max_running or None)
        upstreams += [NamedUpstream(target) for target in single.targets()]
    common = proxy_url(proxy or "", "UpstreamProxy")
    for named in config.upstreams:
        target = named.target if named.target.proxy is not None else replace(named.target, proxy=common)
        upstreams.append(replace(named, target=target))
    return OrderedUpstreams(
        [
            replace(each, target=replace(each.target, ourselves=_is_here(each.target.base_url, config)))
            for each in upstreams
        ]
    )


def _is_here(address: str, config: Config) -> bool:
    """True when the address is where this server itself listens, as far as its own settings tell."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme.lower() == "https" else 80)
    return port == config.settings.port and (is_loopback(host) or host == config.settings.host)


def _names(pattern: str) -> bool:
    """Whether a pattern names models, and not just everything."""
    return bool(pattern.strip(STAR))


def _parts(patterns: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The fixed parts, between the stars, of those patterns that name models."""
    return tuple(tuple(pattern.casefold().split(STAR)) for pattern in patterns if _names(pattern))


def _fits(parts: tuple[str, ...], name: str) -> bool:
    """Whether the name has these parts in this order, first and last at its ends. Never tries a part twice."""
    first, *middle = parts
    if not middle:
        return name == first
    last = middle.pop()
    if len(name) < len(first) + len(last) or not name.startswith(first) or not name.endswith(last):
        return False
    position, end = len(first), len(name) - len(last)
    for part in middle:
        at = name.find(part, position, end)
        if at < 0:
            return False
        position = at + len(part)
    return True
