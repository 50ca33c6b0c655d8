"""What a model reads of a tool that brings a JSON Schema and no words about its arguments (P87, P88; spec 3.5).

Objects are described one level deep, so schemas that refer to themselves come to an end. Every list, line and text has
a limit: the schema of a stranger may be a long one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from app.errors import both
from app.extend import Json
from app.protocol.arguments import declared_properties, resolve, spellings, to_text
from app.protocol.tool_fields import format_call

PARAMETER_CHARS = 300
"""Longest line about an argument."""

DESCRIBED_PARAMETERS = 100
"""So many arguments are described; those that are required come first where there are more."""

DESCRIBED_MEMBERS = 20
"""So many members of an argument that is an object."""

PARAMETERS_CHARS = 6000
"""Longest text about all arguments."""

TYPE_CHARS = 120
CHOICES = 20
ALTERNATIVES = 6
VALUE_CHARS = 60
EXAMPLE_CHARS = 100
TRIED_WORDS = 50
DEPTH = 5
"""How many references and alternatives inside each other are followed for one type."""

_Root = Mapping[str, Json]


def parameter_lines(schema: _Root) -> list[str]:
    """Lines that describe the arguments of a command; none when it declares none."""
    properties = declared_properties(schema)
    if not properties:
        return []
    required = _names(schema.get("required"))
    keys = spellings(properties)
    names = list(properties)
    if len(names) > DESCRIBED_PARAMETERS:
        names.sort(key=lambda name: name not in required)
    lines = [both("参数：", "Parameters:")]
    chars = 0
    for number, name in enumerate(names):
        more = _described(name, properties[name], schema, name in required, keys.get(name))
        if chars + sum(map(len, more)) > PARAMETERS_CHARS:
            del more[1:]
        chars += sum(map(len, more))
        if number == DESCRIBED_PARAMETERS or chars > PARAMETERS_CHARS:
            left = len(names) - number
            lines.append(both(f"- ……另有 {left} 个参数", f"- … and {left} more"))
            break
        lines += more
    if any(_is_container(one, schema) for one in properties.values()):
        lines.append(both("数组和对象写成 JSON。", "Arrays and objects are written as JSON."))
    return lines


def example_call(tool: str, schema: _Root, command: str = "") -> str:
    """A marked call with the arguments that are required; empty when marked text cannot express it.

    ``command`` is the word of a tool that has several commands.
    """
    properties = declared_properties(schema)
    keys = spellings(properties)
    fields = {"command": command} if command and "command" not in properties else {}
    for name in list(properties)[:DESCRIBED_PARAMETERS]:
        if name in _names(schema.get("required")):
            fields[keys.get(name, name)] = _example(properties[name], schema)
    try:
        return format_call(tool, fields)
    except ValueError:  # a name or a value that the marks do not allow
        return ""


def type_words(schema: Json, root: _Root, depth: int = DEPTH) -> str:
    """The type of a schema in a few words, as ``string | null`` or ``array of integer``."""
    words = list(dict.fromkeys(islice(_type_words(schema, root, depth), TRIED_WORDS)))
    if len(words) > ALTERNATIVES:
        words = [*words[:ALTERNATIVES], "…"]
    return _cut(" | ".join(words) or "any", TYPE_CHARS)


def _described(name: str, schema: Json, root: _Root, required: bool, key: str | None) -> list[str]:
    lines = [_line("", name, schema, root, required, key)]
    inner = _object_in(schema, root)
    members = declared_properties(inner) if inner is not None else {}
    needed = _names(inner.get("required")) if inner is not None else frozenset()
    for member in list(members)[:DESCRIBED_MEMBERS]:
        lines.append(_line("  ", member, members[member], root, member in needed, None))
    if len(members) > DESCRIBED_MEMBERS:
        left = len(members) - DESCRIBED_MEMBERS
        lines.append(both(f"  - ……另有 {left} 个成员", f"  - … and {left} more"))
    return lines


def _line(indent: str, name: str, schema: Json, root: _Root, required: bool, key: str | None) -> str:
    told = _followed(schema, root)
    about = _said(schema, "description") or _said(told, "description") or _said(told, "title")
    more = both("，必需", ", required") if required else ""
    default = told.get("default", schema.get("default") if isinstance(schema, Mapping) else None)
    if default is not None:
        more += both(f"，默认 {_value(default)}", f", default {_value(default)}")
    if key is not None:
        more += both(f"，写作 {key}", f", write it as {key}")
    limits = _limits(told)
    text = f"{indent}- {_flat(name)} ({type_words(schema, root)}{limits}{more})" + (f": {about}" if about else "")
    return _cut(text, PARAMETER_CHARS)


def _type_words(schema: Json, root: _Root, depth: int) -> Iterator[str]:
    if not isinstance(schema, Mapping) or depth == 0:
        yield "any"
        return
    reference = schema.get("$ref")
    if isinstance(reference, str):
        yield from _type_words(resolve(reference, root), root, depth - 1)
        return
    if "const" in schema:
        yield _value(schema["const"])
        return
    choices = schema.get("enum")
    if isinstance(choices, list):
        yield from _choices(choices)
        return
    kinds = schema.get("type")
    named = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if isinstance(kind, str)]
    for kind in named:
        if kind == "array":
            yield f"array of {type_words(schema['items'], root, depth - 1)}" if "items" in schema else "array"
        else:
            form = schema.get("format")
            yield f"string ({_flat(form)})" if kind == "string" and isinstance(form, str) else _flat(kind)
    if named:
        return
    parts = [part for keyword in ("anyOf", "oneOf", "allOf") for part in _list(schema.get(keyword))]
    for part in parts[: ALTERNATIVES + 1]:
        yield from _type_words(part, root, depth - 1)
    if not parts:
        yield "object" if "properties" in schema else "array" if "items" in schema else "any"


def _choices(choices: list[Json]) -> Iterator[str]:
    """Choices in as much room as a type has; all in one word, so that they are not counted as alternatives."""
    texts = [_value(choice) for choice in choices[:CHOICES]]
    kept: list[str] = []
    for text in texts:
        if kept and len(" | ".join([*kept, text])) > TYPE_CHARS - 4:
            break
        kept.append(text)
    yield " | ".join([*kept, "…"] if len(kept) < len(choices) else kept)


def _limits(schema: _Root) -> str:
    """The range of a number that has both ends."""
    least, most = _number(schema, "minimum"), _number(schema, "maximum")
    return "" if least is None or most is None else f" {least}-{most}"


def _number(schema: _Root, keyword: str) -> str | None:
    value = schema.get(keyword)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return _value(value)


def _example(schema: Json, root: _Root) -> str:
    """What stands in the example for one argument: a value that the schema offers, else its type in brackets."""
    told = _followed(schema, root)
    for offered in (
        *_list(told.get("examples"))[:1],
        told.get("default"),
        told.get("const"),
        *_list(told.get("enum"))[:1],
    ):
        if offered is None:
            continue
        try:
            text = to_text(offered)
        except (ValueError, RecursionError):
            continue
        if text and len(text) <= EXAMPLE_CHARS:
            return text
    return f"<{type_words(schema, root)}>"


def _followed(schema: Json, root: _Root) -> _Root:
    """The schema behind references; an empty one where they do not end."""
    for _ in range(DEPTH):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        schema = resolve(reference, root)
    return {}


def _object_in(schema: Json, root: _Root) -> _Root | None:
    """The object schema of an argument that is an object, a list of objects, or either one as an alternative."""
    waiting = [schema]
    for _ in range(DEPTH):
        if not waiting:
            break
        told = _followed(waiting.pop(0), root)
        if declared_properties({**told, "$ref": None}):
            return told
        waiting.extend(one for one in (told.get("items"), *_list(told.get("anyOf")), *_list(told.get("oneOf"))) if one)
    return None


def _is_container(schema: Json, root: _Root) -> bool:
    told = _followed(schema, root)
    kinds = [
        told,
        *(_followed(part, root) for keyword in ("anyOf", "oneOf") for part in _list(told.get(keyword))[:ALTERNATIVES]),
    ]
    return any(kind in ("array", "object") or "properties" in one for one in kinds for kind in [one.get("type")])


def _said(schema: Json, keyword: str) -> str:
    value = schema.get(keyword) if isinstance(schema, Mapping) else None
    return _flat(value) if isinstance(value, str) else ""


def _value(value: Json) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):  # numbers that Python refuses to write, for instance
        return "…"
    return _flat(_cut(text, VALUE_CHARS))


def _flat(text: str) -> str:
    return " ".join(_cut(text, PARAMETER_CHARS * 2).split())


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _names(value: Json) -> frozenset[str]:
    return frozenset(name for name in value if isinstance(name, str)) if isinstance(value, list) else frozenset()


def _list(value: Any) -> list[Json]:
    return value if isinstance(value, list) else []
