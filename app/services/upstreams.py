"""Builds what speaks to model APIs: who is asked, how long they are waited for, vectors of texts."""

from __future__ import annotations

from collections.abc import Callable

from app.config.model_redirect import ModelRedirect
from app.config.settings import Settings
from app.config.snapshot import Config
from app.extend import UpstreamResolver
from app.services.in_force import InForce
from app.upstream.client import UpstreamClient
from app.upstream.embeddings import Embeddings
from app.upstream.limits import UpstreamLimits
from app.upstream.retry import RetryPolicy
from app.upstream.targets import resolver_of


def upstream_client(config: Config, fallback: UpstreamResolver | None) -> UpstreamClient:
    """The client of this configuration; ``fallback`` serves while it names no model API. Raises ConfigError."""
    settings = config.settings
    return UpstreamClient(
        _resolver(config, fallback), _retry_policy(settings), _limits(settings), environment=config.environ
    )


def renewed_client(client: UpstreamClient, config: Config, fallback: UpstreamResolver | None) -> UpstreamClient:
    """``client`` under another configuration, over the same connections. Raises ConfigError."""
    settings = config.settings
    return client.renewed(
        _resolver(config, fallback), _retry_policy(settings), _limits(settings), environment=config.environ
    )


def embeddings(in_force: InForce, client: Callable[[], UpstreamClient], redirect: ModelRedirect) -> Embeddings:
    """Vectors of texts, from the first model that the settings list where none is named."""

    def first_listed() -> str:
        return redirect.internal(next(iter(in_force.settings.whitelist_embedding_model), ""))

    return Embeddings(client, first_listed)


def _resolver(config: Config, fallback: UpstreamResolver | None) -> UpstreamResolver:
    given = None if config.has_model_api else fallback
    return given or resolver_of(config)


def _retry_policy(settings: Settings) -> RetryPolicy:
    return RetryPolicy(settings.api_retries, settings.api_retry_delay, settings.upstream_pause_seconds)


def _limits(settings: Settings) -> UpstreamLimits:
    return UpstreamLimits(
        connect=settings.upstream_connect_timeout,
        first_byte=settings.upstream_first_byte_timeout,
        idle=settings.upstream_idle_timeout,
        queue=settings.upstream_queue_seconds,
    )
