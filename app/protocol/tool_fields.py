"""The fields of a tool request block and what they mean (spec 4.2, 4.3; D4, D21, D22)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from app.protocol import markers
from app.protocol.arguments import fold
from app.protocol.blanks import BLANKS, trimmed

KEY_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

_ESCAPED = {
    markers.TOOL_REQUEST_START_ESCAPE: markers.TOOL_REQUEST_START,
    markers.TOOL_REQUEST_END_ESCAPE: markers.TOOL_REQUEST_END,
    markers.VALUE_START_ESCAPE: markers.VALUE_START,
    markers.VALUE_END_ESCAPE: markers.VALUE_END,
}
_ESCAPED_FORM = re.compile("|".join(map(re.escape, _ESCAPED)))
_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_RESERVED = {
    fold(name): name
    for name in (
        markers.KEY_TOOL_NAME,
        markers.KEY_ARCHERY,
        markers.KEY_TOOL_PASSWORD,
        markers.KEY_MAID,
        markers.KEY_VALET,
    )
}


@dataclass(frozen=True, slots=True)
class ToolBlock:
    """One tool request as it stands in a text.

    ``tool`` is never empty. ``arguments`` holds everything that is passed on, as text, under the names as written and
    in their order; without ``tool_name``, ``archery`` and ``tool_password``. ``archery_text`` and ``password`` are
    those fields as written, ``password_key`` the name under which the password stood. ``maid`` is the caller's name or
    None. ``start`` and ``end`` are offsets in the whole scanned text, markers included. With a ``skipped_why`` the
    block is reported so that it can be logged, and must not be run.
    """

    tool: str
    arguments: dict[str, str]
    archery: bool = False
    archery_text: str | None = None
    password: str | None = None
    password_key: str | None = None
    maid: str | None = None
    start: int = 0
    end: int = 0
    skipped_why: str = ""


def key_before_value(text: str) -> str:
    """The key that ends ``text``, which stands directly before a value's opening mark; empty when there is none.

    A key is the longest run of ASCII letters, digits, ``_`` and ``-``, then a colon, white space around it; leading
    hyphens are list bullets (D4, D22).
    """
    bare = text.rstrip(BLANKS)
    if not bare.endswith(":"):
        return ""
    bare = bare[:-1].rstrip(BLANKS)
    return bare[len(bare.rstrip(KEY_CHARACTERS)) :].lstrip("-")


def unescaped(text: str) -> str:
    """The content of an escaped value with its escaped forms put back (spec 4.3), in one pass."""
    return _ESCAPED_FORM.sub(lambda found: _ESCAPED[found[0]], text)


def block_of(fields: Mapping[str, str], start: int = 0, end: int = 0, skipped_why: str = "") -> ToolBlock | None:
    """The request that the fields describe; None when they name no tool.

    Reserved keys are recognised after folding; an exactly written one beats a folded one. A folded ``Tool_Name`` or
    ``Archery`` beside the exact key is dropped, of the others the folded one stays an argument (D21, D22).
    """
    chosen: dict[str, str] = {}
    for name in fields:
        reserved = _RESERVED.get(fold(name))
        if reserved is not None and (name == reserved or reserved not in fields):
            chosen[reserved] = name
    tool = fields[chosen[markers.KEY_TOOL_NAME]] if markers.KEY_TOOL_NAME in chosen else ""
    if not tool:
        return None
    password_key = chosen.get(markers.KEY_TOOL_PASSWORD)
    arguments = {
        name: value
        for name, value in fields.items()
        if name not in (markers.KEY_PROTO, password_key)
        and _RESERVED.get(fold(name)) not in (markers.KEY_TOOL_NAME, markers.KEY_ARCHERY)
    }
    maid_key = chosen.get(markers.KEY_MAID)
    valet_key = chosen.get(markers.KEY_VALET)
    maid = fields[maid_key] if maid_key is not None else ""
    if maid_key is None and valet_key is not None and fields[valet_key]:
        maid = arguments[markers.KEY_MAID] = fields[valet_key]
    archery_key = chosen.get(markers.KEY_ARCHERY)
    archery_text = fields[archery_key] if archery_key is not None else None
    return ToolBlock(
        tool=tool,
        arguments=arguments,
        archery=archery_text in markers.ARCHERY_VALUES,
        archery_text=archery_text,
        password=fields[password_key] if password_key is not None else None,
        password_key=password_key,
        maid=maid or None,
        start=start,
        end=end,
        skipped_why=skipped_why,
    )


def format_call(
    tool: str, arguments: Mapping[str, str], *, archery: str | None = None, password: str | None = None
) -> str:
    """The text of a tool request block; reading it gives the same tool and arguments back.

    White space around values is not kept by the grammar. Values with markers in them are written escaped. Raises
    ``ValueError`` for what the grammar cannot express: no tool name, a name that is not a key or that is reserved for
    ``tool``, ``archery`` and ``password``, a value that needs escaping and already holds an escaped form.
    """
    if not trimmed(tool):
        raise ValueError("a tool request needs a tool name")
    fields = [(markers.KEY_TOOL_NAME, tool)]
    if archery is not None:
        fields.append((markers.KEY_ARCHERY, archery))
    if password is not None:
        fields.append((markers.KEY_TOOL_PASSWORD, password))
    taken = (markers.KEY_TOOL_NAME, markers.KEY_ARCHERY, markers.KEY_TOOL_PASSWORD)
    for name in arguments:
        if not _KEY.fullmatch(name) or name == markers.KEY_PROTO or _RESERVED.get(fold(name)) in taken:
            raise ValueError(f"{name!r} cannot be the name of an argument in a tool request")
    fields.extend(arguments.items())
    lines = ",\n".join(f"{name}:{_value(name, value)}" for name, value in fields)
    return f"{markers.TOOL_REQUEST_START}\n{lines}\n{markers.TOOL_REQUEST_END}"


def _value(name: str, value: str) -> str:
    marked = any(marker in value for marker in _ESCAPED.values())
    if not marked:
        return f"{markers.VALUE_START}{value}{markers.VALUE_END}"
    if _ESCAPED_FORM.search(value):
        if markers.VALUE_END in value or markers.TOOL_REQUEST_END in value:
            raise ValueError(f"the value of {name!r} holds both markers and their escaped forms")
        return f"{markers.VALUE_START}{value}{markers.VALUE_END}"
    # A closing mark stays as it is: its escaped form would end the value.
    for escaped, literal in _ESCAPED.items():
        if literal != markers.VALUE_END:
            value = value.replace(literal, escaped)
    return f"{markers.VALUE_START_ESCAPE}{value}{markers.VALUE_END_ESCAPE}"
