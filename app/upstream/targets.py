"""Which model API serves a model. Today there is one for all of them."""

from __future__ import annotations

from app.errors import ConfigError, both
from app.extend import UpstreamTarget
from app.upstream.proxies import proxy_url
from app.upstream.urls import base_url


class SingleUpstream:
    """The ``UpstreamResolver`` of ``API_URL``, ``API_Key`` and ``UpstreamProxy``: the same target for every model.

    Raises ``ConfigError`` that names the setting when no request can be made with it (D12).
    """

    def __init__(self, api_url: str, api_key: str, proxy: str | None = None) -> None:
        key = api_key.strip()
        if not key.isprintable():
            raise ConfigError(
                both(
                    "API_Key 里有换行或控制字符，请把密钥写在一行",
                    "API_Key has a line break or a control character in it; write the key on one line",
                )
            )
        self._target = UpstreamTarget(
            base_url=base_url(api_url), api_key=key, proxy=proxy_url(proxy or "", "UpstreamProxy")
        )

    def resolve(self, model: str) -> UpstreamTarget:
        """The target for this model."""
        return self._target
