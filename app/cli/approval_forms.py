"""Forms of MCP servers on a terminal, one field after the other (D75)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from app.cli.terminal import printable
from app.errors import both
from app.extend import Json
from app.protocol.forms import KINDS, FormField

MAX_CHOICES_SHOWN = 50


def form_of(one: Mapping[str, Json]) -> tuple[FormField, ...]:
    """The fields of a request that waits, as ``/v1/approvals`` tells them; empty for a call."""
    question = one.get("question")
    fields = question.get("fields") if isinstance(question, Mapping) else None
    return tuple(_field(field) for field in fields if isinstance(field, Mapping)) if isinstance(fields, list) else ()


async def filled(
    fields: tuple[FormField, ...], say: Callable[[str], None], next_line: Callable[[], Awaitable[str | None]]
) -> dict[str, Json] | None:
    """What a person fills in: an empty line takes the default, or leaves out what may be missing.

    ``say`` prints without ending the line. None when the input ends before the form does.
    """
    content: dict[str, Json] = {}
    for field in fields:
        say(_explained(field))
        while True:
            say(_prompt(field))
            line = await next_line()
            if line is None:
                return None
            if not line.strip():
                if field.default is not None or not field.required:
                    break
                continue
            try:
                value = field.parsed(line)
                fault = field.fault(value)
            except ValueError as error:
                fault = str(error)
            if not fault:
                content[field.name] = value
                break
            say(f"  {printable(fault)}\n")
    return content


def _explained(field: FormField) -> str:
    lines = [f"  {field.title or field.name}", *([f"    {field.description}"] if field.description else [])]
    shown = field.choices[:MAX_CHOICES_SHOWN]
    lines += [f"    {number}. {title}" for number, (_value, title) in enumerate(shown, 1)]
    if len(field.choices) > len(shown):
        lines.append(f"    … {len(field.choices) - len(shown)}")
    return "".join(f"{printable(line)}\n" for line in lines)


def _prompt(field: FormField) -> str:
    kind = {"boolean": "y/n", "array": "1,2,…"}.get(field.kind, field.kind)
    hints = [kind, *([both("必填", "required")] if field.required and field.default is None else [])]
    default = "" if field.default is None else f" [{field.default}]"
    return printable(f"  {field.name} ({', '.join(hints)}){default}: ")


def _field(told: Mapping[str, Any]) -> FormField:
    kind = told.get("type")
    choices = told.get("choices")
    pairs = [one for one in choices if isinstance(one, Mapping)] if isinstance(choices, list) else []
    least, most = told.get("least"), told.get("most")
    return FormField(
        str(told.get("name")),
        kind if kind in (*KINDS, "array") else "string",
        str(told.get("title") or ""),
        str(told.get("description") or ""),
        told.get("required") is True,
        told.get("default"),
        tuple((str(one.get("value")), str(one.get("title") or one.get("value"))) for one in pairs),
        float(least) if isinstance(least, int | float) else None,
        float(most) if isinstance(most, int | float) else None,
        str(told.get("format") or ""),
    )
