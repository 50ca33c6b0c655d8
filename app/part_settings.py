"""What single parts need of the configuration, each as the value type of that part; made anew at every reload."""

from __future__ import annotations

from app.config.settings import Settings
from app.config.snapshot import Config
from app.plugins.places import Limits
from app.prompt.settings import PromptSettings
from app.upstream.limits import UpstreamLimits
from app.upstream.retry import RetryPolicy


def retry_policy(settings: Settings) -> RetryPolicy:
    """When requests to model APIs are repeated."""
    return RetryPolicy(settings.api_retries, settings.api_retry_delay, settings.upstream_pause_seconds)


def upstream_limits(settings: Settings) -> UpstreamLimits:
    """How long model APIs are waited for."""
    return UpstreamLimits(
        connect=settings.upstream_connect_timeout,
        first_byte=settings.upstream_first_byte_timeout,
        idle=settings.upstream_idle_timeout,
        queue=settings.upstream_queue_seconds,
    )


def process_limits(settings: Settings) -> Limits:
    """How many plugin processes there may be, and how long and how large they may get."""
    return Limits(
        running=settings.plugin_max_running,
        queued=settings.plugin_queue_limit,
        queue_seconds=settings.plugin_queue_seconds,
        output_bytes=settings.plugin_output_limit_mb * 1024 * 1024,
        stop_seconds=settings.plugin_stop_seconds,
    )


def prompt_settings(config: Config, image_key: str) -> PromptSettings:
    """What the prompt engine expands by; ``image_key`` is the picture server's own one, which wins, or empty."""
    settings = config.settings
    return PromptSettings(
        variables=config.families.variables,
        sar=config.families.sar,
        detectors=config.families.detectors,
        super_detectors=config.families.super_detectors,
        zone=config.report_zone,
        port=settings.port,
        image_key=image_key or settings.image_key,
        expand_agents_in_all_roles=settings.expand_agents_in_all_roles,
        resolve_variables_in_any_order=settings.resolve_variables_in_any_order,
        detectors_last=settings.compat_profile == "head",
    )
