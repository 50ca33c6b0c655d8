"""How a connected far node is: what the registry of nodes tells, ``/v1/nodes`` says and ``vcp nodes`` shows."""

from __future__ import annotations

from dataclasses import dataclass

from app.extend import Json


@dataclass(frozen=True, slots=True)
class NodeState:
    """One connected node.

    ``name`` is the one it is registered under, ``version`` that of its program (empty: it did not say), ``address`` its
    peer address, ``since`` when it came, in seconds since the epoch. ``tools`` are the names that it offers, ``labels``
    its own. ``running``, ``calls`` and ``failures`` count calls to it since it came; ``latency`` is the last measured
    time of a round trip in seconds (None: never measured), ``last_error`` the text of its last failure (empty: none).
    ``client`` is the id of its connection, ``identity`` whose key it brought (empty: the common one); both only inside.
    """

    name: str
    version: str
    address: str
    since: float
    tools: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    running: int = 0
    calls: int = 0
    failures: int = 0
    latency: float | None = None
    last_error: str = ""
    client: str = ""
    identity: str = ""

    def as_json(self) -> Json:
        """What clients are told, as a JSON object with these names."""
        return {
            "name": self.name,
            "version": self.version,
            "address": self.address,
            "since": self.since,
            "tools": list(self.tools),
            "labels": list(self.labels),
            "running": self.running,
            "calls": self.calls,
            "failures": self.failures,
            "latency": self.latency,
            "last_error": self.last_error,
        }
