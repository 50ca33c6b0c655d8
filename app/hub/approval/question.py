"""What a person is shown of a question that an MCP server asks, beside calls that wait for approval (D75; MCP-30)."""

from __future__ import annotations

from collections.abc import Sequence

from app.extend import Json, PersonQuestion
from app.hub.approval.request import fitted
from app.protocol.forms import FormField
from app.protocol.pages import page_host

MAX_CHARS = 20_000
"""Most characters of a question, its message and form together."""


def shown_question(question: PersonQuestion, fields: Sequence[FormField]) -> dict[str, Json]:
    """The question as clients get it: who asks, his words, the fields of the form or the page with its host."""
    facts: dict[str, Json] = {"server": question.asker, "message": question.message}
    if question.url:
        facts |= {"mode": "url", "url": question.url, "host": page_host(question.url)}
    else:
        facts |= {"mode": "form", "fields": [_field(field) for field in fields]}
    return fitted(facts, MAX_CHARS)


def shown_as_arguments(question: PersonQuestion, fields: Sequence[FormField]) -> dict[str, Json]:
    """The same for clients that know calls only: what they show as arguments."""
    facts: dict[str, Json] = {"message": question.message}
    if question.url:
        facts |= {"url": question.url, "host": page_host(question.url)}
    elif fields:
        facts["fields"] = {
            field.name: f"{field.title or field.name} ({field.kind}{', required' if field.required else ''})"
            for field in fields
        }
    return fitted(facts, MAX_CHARS)


def _field(field: FormField) -> Json:
    choices: list[Json] = [{"value": value, "title": title} for value, title in field.choices]
    facts: dict[str, Json] = {
        "name": field.name,
        "type": field.kind,
        "title": field.title,
        "description": field.description,
        "required": field.required,
        "default": field.default,
        "choices": choices or None,
        "format": field.format,
        "least": field.least,
        "most": field.most,
    }
    return {name: value for name, value in facts.items() if value not in (None, "")}
