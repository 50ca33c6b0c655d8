"""The family ``Upstream_<NAME>_…``: further model APIs beside the one of ``API_URL``, in the order of the file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from app.config.addresses import AddressError, api_address, proxy_address
from app.config.problem import Complaint
from app.extend import UpstreamTarget

MAX_UPSTREAMS = 64
"""Most upstreams of one installation; further ones are left out with a complaint."""

MAX_RUNNING = 100_000
"""Largest limit of running requests that can be set for one upstream."""

PARTS = ("URL", "Key", "Models", "MaxRunning", "Proxy")
"""What may stand behind the name."""

DIRECT = "direct"
"""As a proxy: none at all, whatever ``UpstreamProxy`` and the environment say."""

_PREFIX = "Upstream_"
_KEY = re.compile(rf"{_PREFIX}([A-Za-z0-9][A-Za-z0-9_.-]{{0,63}})_([A-Za-z]+)")
_NUMBER = re.compile(r"[0-9]{1,6}", re.ASCII)


@dataclass(frozen=True, slots=True)
class NamedUpstream:
    """One model API and the models that it serves.

    ``models`` are patterns as written, in which ``*`` stands for any text; none at all serves whatever no other
    upstream names. ``target.proxy`` is None where ``UpstreamProxy`` counts.
    """

    target: UpstreamTarget
    models: tuple[str, ...] = ()


def is_upstream_key(name: str) -> bool:
    """True for the name of a setting that holds a key of a model API, ``Upstream_<NAME>_Key``."""
    match = _KEY.fullmatch(name)
    return match is not None and match[2] == "Key"


def is_of_family(name: str) -> bool:
    """True for every name that looks like one of this family, in whatever capitals."""
    return name.lower().startswith(_PREFIX.lower())


def collect(
    environ: Mapping[str, str], file_keys: frozenset[str] = frozenset()
) -> tuple[tuple[NamedUpstream, ...], tuple[Complaint, ...]]:
    """The upstreams of an ordered environment, and what is wrong with their keys.

    An upstream needs a URL; its place is that of its URL. One with an address, key, list or proxy that cannot be used
    is left out, so that no request goes where it was not meant to go. ``file_keys`` are looked through for names that
    differ in capitals only, since those have no effect.
    """
    found: list[NamedUpstream] = []
    complaints: list[Complaint] = []
    for key, value in environ.items():
        match = _KEY.fullmatch(key)
        if match is None or match[2] not in PARTS:
            if key.startswith(_PREFIX) or (key in file_keys and key.lower().startswith(_PREFIX.lower())):
                complaints.append(Complaint(key, _unknown(key)))
        elif match[2] == "URL" and value.strip():
            if len(found) == MAX_UPSTREAMS:
                complaints.append(Complaint(key, f"is left out: there are {MAX_UPSTREAMS} upstreams already"))
                continue
            upstream, wrong = _upstream(match[1], environ)
            complaints += wrong
            if upstream is not None:
                found.append(upstream)
        elif value.strip() and not environ.get(url := f"{_PREFIX}{match[1]}_URL", "").strip():
            complaints.append(Complaint(key, f"is not used: {url} is not set or empty"))
    return tuple(found), tuple(complaints)


def _unknown(key: str) -> str:
    parts = f"{', '.join(PARTS[:-1])} or {PARTS[-1]}"
    folded = {part.lower(): part for part in PARTS}
    _, _, rest = key.partition("_")
    name, _, part = rest.rpartition("_")
    if name and part.lower() in folded:
        return f"has no effect; capitals count, the setting is called {_PREFIX}{name}_{folded[part.lower()]}"
    return f"has no effect; the name of an upstream is followed by _ and one of {parts}"


def _upstream(name: str, environ: Mapping[str, str]) -> tuple[NamedUpstream | None, list[Complaint]]:
    complaints: list[Complaint] = []

    def written(part: str) -> str:
        return environ.get(f"{_PREFIX}{name}_{part}", "").strip()

    def wrong(part: str, reason: str) -> None:
        complaints.append(Complaint(f"{_PREFIX}{name}_{part}", f"the upstream is left out: the value {reason}"))

    address = ""
    try:
        address = api_address(written("URL"))
    except AddressError as error:
        wrong("URL", error.english)
    key = written("Key")
    if not key.isprintable():
        wrong("Key", "has a line break or a control character in it")
    models = tuple(item.strip() for item in written("Models").replace("，", ",").split(",") if item.strip())
    if written("Models") and not models:
        wrong("Models", "names no model")
    proxy: str | None = None
    try:
        proxy = "" if written("Proxy").lower() == DIRECT else proxy_address(written("Proxy"))
    except AddressError as error:
        wrong("Proxy", error.english)
    if complaints:
        return None, complaints
    limit, reason = _limit(written("MaxRunning"))
    if reason:
        complaints.append(Complaint(f"{_PREFIX}{name}_MaxRunning", reason))
    return NamedUpstream(UpstreamTarget(address, key, proxy, name, limit), models), complaints


def _limit(text: str) -> tuple[int | None, str]:
    if not text:
        return None, ""
    if _NUMBER.fullmatch(text) and 1 <= int(text) <= MAX_RUNNING:
        return int(text), ""
    return None, f"is not a whole number from 1 to {MAX_RUNNING}; no limit applies"
