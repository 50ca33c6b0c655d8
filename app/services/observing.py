"""Builds what watches the server: its numbers and its dumps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from app.config.settings import Settings
from app.extend import CallFinished
from app.hub.clients import ClientType
from app.hub.masks import Masks
from app.observe.bus import EventBus
from app.observe.dumps import DebugDumps
from app.observe.metrics import OBSERVED, Metrics
from app.observe.server_log import LOG_FOLDER
from app.observe.traces.tracing import TraceRules, Tracing
from app.plugins.processes import Processes
from app.services.in_force import InForce
from app.upstream.fleet import UpstreamStatus


def debug_dumps(in_force: InForce, events: EventBus) -> DebugDumps:
    """What turns and calls are dumped by while ``DebugMode`` is on."""
    dumps = DebugDumps(
        in_force.home / LOG_FOLDER,
        lambda: in_force.settings.debug_dump_files if in_force.settings.debug_mode else 0,
        lambda: datetime.now(in_force.zone()),
    )
    events.listen(dumps.observe, CallFinished)
    return dumps


def tracing(in_force: InForce, events: EventBus, secrets: Callable[[], Iterable[str]]) -> Tracing:
    """What keeps traces of requests, as the settings of now want it."""

    def rules(settings: Settings) -> TraceRules:
        return TraceRules(settings.traces, settings.trace_keep_days * 86_400, settings.trace_max_mb * 1024 * 1024)

    return Tracing(
        events,
        in_force.home / ".vcp" / "traces" / "traces.sqlite",
        in_force.following(rules),
        Masks(secrets).of_this_moment,
        writes=in_force.owns_home,
        clock=time.time,
        timer=time.monotonic,
    )


def server_metrics(
    events: EventBus,
    *,
    ready: Callable[[], bool],
    running_turns: Callable[[], int],
    processes: Processes,
    upstreams: Callable[[], Sequence[UpstreamStatus]],
    clients: Callable[[ClientType], int],
    memory: Callable[[], Mapping[tuple[str, ...], float]],
) -> Metrics:
    """The numbers of ``/metrics``: counts of events, and the states that these callables tell."""
    metrics = Metrics(time.monotonic)
    events.listen(metrics.observe, *OBSERVED)
    metrics.watch("vcp_ready", "1 while requests are served and every part is well.", ready)
    metrics.watch("vcp_running_turns", "Turns that run now.", running_turns)
    metrics.watch("vcp_tasks", "Tasks of the event loop.", lambda: len(asyncio.all_tasks()))
    metrics.watch(
        "vcp_plugin_processes",
        "Processes of plugins that run now, and calls that wait for a place.",
        lambda: {
            ("running",): processes.running,
            ("waiting",): processes.waiting,
            ("left",): len(processes.left_groups()),
        },
        labels=("state",),
    )
    metrics.watch("vcp_dropped_events", "Events that a slow subscriber missed.", lambda: events.dropped, counts=True)
    _watch_upstreams(metrics, upstreams)
    metrics.watch(
        "vcp_clients",
        "Clients that are connected over a WebSocket, by type.",
        lambda: {(kind.value,): clients(kind) for kind in ClientType},
        labels=("type",),
    )
    metrics.watch(
        "vcp_memory", "Notes, vectors, what waits, how old, how often a cache helped.", memory, labels=("what",)
    )
    return metrics


def _watch_upstreams(metrics: Metrics, upstreams: Callable[[], Sequence[UpstreamStatus]]) -> None:
    def watch(name: str, told: str, read: Callable[[UpstreamStatus], float], *, counts: bool = False) -> None:
        def reading() -> dict[tuple[str, ...], float]:
            return {(status.name or "API_URL",): read(status) for status in upstreams()}

        metrics.watch(name, told, reading, labels=("upstream",), counts=counts)

    watch("vcp_upstream_running", "Requests that run at an upstream now.", lambda status: status.running)
    watch("vcp_upstream_resting_seconds", "Seconds for which others are asked first.", lambda status: status.resting)
    watch("vcp_upstream_attempts", "Attempts at an upstream.", lambda status: status.attempts, counts=True)
    watch("vcp_upstream_faults", "Attempts that brought no answer.", lambda status: status.faults, counts=True)
