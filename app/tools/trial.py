"""Trying a tool by hand: the fields of its form, and the call that a filled-in form makes (D5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.errors import BadRequestError, both
from app.extend import Json, ToolCall
from app.protocol.arguments import declared_properties
from app.protocol.half_characters import whole
from app.protocol.json_text import compact_json, pretty_json
from app.protocol.markers import KEY_MAID, KEY_TOOL_PASSWORD
from app.protocol.tool_blocks import parse_request
from app.tools.catalogue import Listed

FIELD = "arg:"
"""What stands before the name of an argument among the fields of a form."""

FREE_NAMES, FREE_VALUES = "name", "value"
FREE_ROWS = 8
MAX_FIELDS = 100
MAX_CHOICES = 500
MAX_TEXT_CHARS = 2000


@dataclass(frozen=True, slots=True)
class TrialField:
    """One argument: ``kind`` is ``text``, ``number``, ``boolean``, ``choice`` or ``json``, ``value`` the start.

    Values are texts; those of ``json`` are JSON.
    """

    name: str
    kind: str
    title: str = ""
    description: str = ""
    required: bool = False
    value: str = ""
    choices: tuple[str, ...] = ()


def trial_fields(parameters: Mapping[str, Json] | None) -> tuple[TrialField, ...]:
    """The declared arguments of a command; empty where none are declared."""
    wanted = (parameters or {}).get("required")
    required = {name for name in wanted if isinstance(name, str)} if isinstance(wanted, list) else set()
    declared = list(declared_properties(parameters).items())[:MAX_FIELDS]
    return tuple(_field(name, schema, name in required) for name, schema in declared)


def _field(name: str, schema: Json, required: bool) -> TrialField:
    described = schema if isinstance(schema, Mapping) else {}
    kind = described.get("type")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), None)
    listed = described.get("enum")
    choices: tuple[str, ...] = ()
    if isinstance(listed, list) and 0 < len(listed) <= MAX_CHOICES:
        choices = tuple(_text(one) for one in listed)
    kinds = {"string": "text", "number": "number", "integer": "number", "boolean": "boolean"}
    shown = "choice" if choices else kinds.get(str(kind), "json" if kind in ("object", "array") else "text")
    default = described.get("default")
    return TrialField(
        name,
        shown,
        _said(described, "title"),
        _said(described, "description"),
        required,
        "" if default is None else _text(default),
        choices,
    )


def _text(value: Json) -> str:
    if isinstance(value, str):
        return value
    return pretty_json(value) if isinstance(value, dict | list) and value else compact_json(value)


def _said(schema: Mapping[str, Json], key: str) -> str:
    value = schema.get(key)
    return value[:MAX_TEXT_CHARS] if isinstance(value, str) else ""


def free_rows(example: str) -> tuple[tuple[str, str], ...]:
    """Names and values to start with where no arguments are declared: those of the example, and empty ones."""
    rows: list[tuple[str, str]] = []
    try:
        block = parse_request(example)
    except BadRequestError:
        block = None
    if block is not None:
        rows = [(name, value) for name, value in block.arguments.items() if name not in (KEY_MAID, KEY_TOOL_PASSWORD)]
    rows = rows[:MAX_FIELDS]
    return (*rows, *(("", ""),) * max(2, FREE_ROWS - len(rows)))


def trial_call(listed: Listed, form: Sequence[tuple[str, str]], call_id: str, *, password_wanted: bool) -> ToolCall:
    """The call of a filled-in form, as texts, which the router converts by schema; empty fields are left out.

    Raises BadRequestError for a value that stands under no name.
    """
    arguments: dict[str, str] = {}
    for name, value in form:
        if name.startswith(FIELD) and value.strip():
            arguments[whole(name.removeprefix(FIELD))] = _value(value)
    for name, value in _pairs(form):
        if not name.strip():
            if value.strip():
                raise BadRequestError(both("有一个值没有参数名", "a value stands under no name"))
            continue
        arguments[whole(name.strip())] = _value(value)
    password = next((value for name, value in form if name == KEY_TOOL_PASSWORD), "").strip()
    maid = next((value for name, value in form if name == KEY_MAID), "").strip()
    if maid:
        arguments[KEY_MAID] = whole(maid)
    return ToolCall(
        call_id,
        listed.name,
        arguments,
        arguments,
        password=(password or None) if password_wanted else None,
        maid=maid or None,
    )


def _value(text: str) -> str:
    return whole(text.replace("\r\n", "\n"))  # a browser sends line ends in its own way


def _pairs(form: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    names = [value for name, value in form if name == FREE_NAMES]
    values = [value for name, value in form if name == FREE_VALUES]
    return zip(names, values, strict=False)
