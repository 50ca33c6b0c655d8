"""Which of our tools a request offers as functions of the chat API (D5, D68, D70)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from app.chat.payload import dumps
from app.errors import both
from app.extend import Body, Json
from app.tools.offers import OPEN_OBJECT, Offered, Offers

log = logging.getLogger(__name__)

PASSWORD = "tool_password"

SCHEMA_DEPTH = 64
"""Levels of a schema that is offered; one that goes deeper is offered as an open object, and checked all the same."""

SCHEMA_BYTES = 64 * 1024
"""Size of a schema that is offered, likewise."""

_NOT_AT_THE_ROOT = frozenset(("$id", "$schema", "allOf", "anyOf", "enum", "not", "oneOf"))
"""What model APIs refuse there, and with it the whole request."""

_PASSWORD_SCHEMA: Mapping[str, Json] = {
    "type": "string",
    "description": both("当前的工具验证码，向用户询问", "the code of the hour; ask the user for it"),
}


@dataclass(frozen=True, slots=True)
class NativeOffer:
    """What one request offers: entries for ``tools``, what the names of ours mean, the client's names."""

    entries: tuple[Mapping[str, Json], ...]
    ours: Mapping[str, Offered]
    theirs: frozenset[str]


class NativeTools:
    """Chooses for each request; one object for the whole server.

    ``offers`` gives the tools under the names that the API allows, ``limit`` the most that a request may have with the
    client's own among them. With ``code_wanted`` each schema has the code of ``VCPToolCode`` (spec 4.5), for a model
    that keeps to a closed schema could not give it otherwise.
    """

    def __init__(self, offers: Offers, limit: Callable[[], int]) -> None:
        self._offers = offers
        self._limit = limit
        self._made_of: tuple[tuple[Offered, ...], bool] | None = None
        self._entries: tuple[tuple[Offered, Mapping[str, Json]], ...] = ()
        self._told: tuple[Offered, ...] | None = None

    def offer(self, body: Body, *, code_wanted: bool) -> NativeOffer | None:
        """What is offered beside the body's own ``tools``; None for nothing.

        The client's choice counts: with a ``tool_choice`` that is not ``auto`` the model has to do as the client says,
        with tools of the client's. So it has in a request of the older form (``functions``), or one whose ``tools``
        are no list, which is the upstream's to refuse.
        """
        own = body.get("tools") or []
        if not isinstance(own, list) or body.get("functions") or body.get("tool_choice") not in (None, "auto"):
            return None
        theirs = frozenset(name for entry in own if (name := _name_of(entry)))
        free = [(offered, entry) for offered, entry in self._all(code_wanted) if offered.name not in theirs]
        chosen = free[: max(0, self._limit() - len(own))]
        if not chosen:
            return None
        if len(chosen) < len(free):
            self._tell(len(free) - len(chosen))
        ours = {offered.full_name: offered for offered, _ in chosen if offered.full_name not in theirs}
        ours |= {offered.name: offered for offered, _ in chosen}
        return NativeOffer(tuple(entry for _, entry in chosen), ours, theirs)

    def _all(self, code_wanted: bool) -> tuple[tuple[Offered, Mapping[str, Json]], ...]:
        tools = self._offers.all()
        if self._made_of is None or self._made_of[0] is not tools or self._made_of[1] != code_wanted:
            self._entries = tuple((offered, _entry(offered, code_wanted=code_wanted)) for offered in tools)
            self._made_of = tools, code_wanted
        return self._entries

    def _tell(self, left_out: int) -> None:
        tools = self._offers.all()
        if self._told is not tools:
            self._told = tools
            log.warning("%d tools are not offered as functions: they are over NativeToolsMax", left_out)


def _entry(offered: Offered, *, code_wanted: bool) -> Mapping[str, Json]:
    try:
        schema = _plain(offered.input_schema, SCHEMA_DEPTH)
        if len(dumps(schema)) > SCHEMA_BYTES:
            raise ValueError("too large")
    except ValueError:
        schema = dict(OPEN_OBJECT)
    known = schema.get("properties")
    properties = known if isinstance(known, dict) else {}  # some model APIs want them to be there
    code = {PASSWORD: _PASSWORD_SCHEMA} if code_wanted else {}
    root = {name: value for name, value in schema.items() if name not in _NOT_AT_THE_ROOT}
    parameters = {**root, "properties": {**code, **properties}}
    described = {"description": offered.description} if offered.description else {}
    return {"type": "function", "function": {"name": offered.name, **described, "parameters": parameters}}


def _plain(value: Json, depth: int) -> Json:
    """JSON of plain dicts and lists, as the writer wants them; ValueError when it is too deep."""
    if not isinstance(value, Mapping | list | tuple):
        return value
    if depth == 0:
        raise ValueError("too deep")
    if isinstance(value, Mapping):
        return {name: _plain(one, depth - 1) for name, one in value.items()}
    return [_plain(one, depth - 1) for one in value]


def _name_of(entry: Json) -> str:
    """The name of a client's tool, of whatever kind."""
    if not isinstance(entry, Mapping):
        return ""
    for kind in ("function", "custom"):
        described = entry.get(kind)
        if isinstance(described, Mapping) and isinstance(name := described.get("name"), str):
            return name
    return ""
