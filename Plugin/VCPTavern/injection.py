"""What the rules of a preset do to a conversation (memory.md 6.5, 10.7; D77); pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .rules import Preset, Rule

Message = dict[str, Any]
Resolve = Callable[[str], str]

INSERTED_LIMIT = 16 * 1024 * 1024
"""Most characters that one preset puts into one conversation, a text for each place where it lands."""


class TooMuchError(ValueError):
    """The preset would put more into the conversation than ``INSERTED_LIMIT``."""


def injected(messages: Sequence[Message], preset: Preset, resolve: Resolve) -> list[Message]:
    """A new list with the messages of the preset in it; ``messages`` stays as it is. Raises TooMuchError.

    ``resolve`` replaces variables in texts. Texts are embedded into the messages that are there before any is inserted.
    Messages of content parts stay lists.
    """
    size = _Size()
    order = list(messages)
    for rule in preset.rules:
        if rule.kind == "embed" and isinstance(rule.content, str):
            text = resolve(rule.content)
            for place in _anchors(messages, rule.target):
                size.add(text)
                order[place] = _embedded(order[place], text, before=rule.position == "before")
    inserts = [(rule, _message(rule, resolve)) for rule in preset.rules if rule.kind != "embed"]
    return _as_listed(order, inserts, size) if preset.as_listed else _as_reference(order, inserts, size)


def _as_listed(messages: list[Message], inserts: Sequence[tuple[Rule, Message]], size: _Size) -> list[Message]:
    """Anchors are those of the conversation as it came; what lands in one place stays in the order of the list."""
    before: dict[int, list[Message]] = {}
    after: dict[int, list[Message]] = {}
    for rule, message in (one for one in inserts if one[0].kind == "relative"):
        for place in _anchors(messages, rule.target):
            size.add(message)
            (before if rule.position == "before" else after).setdefault(place, []).append(message)
    deep: dict[int, list[Message]] = {}
    for rule, message in sorted((one for one in inserts if one[0].kind == "depth"), key=_deepest_first):
        size.add(message)
        if rule.depth < len(messages):
            deep.setdefault(len(messages) - rule.depth, []).append(message)
        else:
            after.setdefault(_first_system(messages), []).append(message)
    result: list[Message] = [*after.get(-1, [])]
    for place, message in enumerate(messages):
        result += [*deep.get(place, []), *before.get(place, []), message, *after.get(place, [])]
    return result


def _as_reference(messages: list[Message], inserts: Sequence[tuple[Rule, Message]], size: _Size) -> list[Message]:
    """Rules ``before`` from the last to the first, then those ``after``, then depths; anchors are looked up anew.

    So a system message that was inserted is the anchor of what follows (V1, V4; P63).
    """
    relative = [one for one in inserts if one[0].kind == "relative"]
    first = [one for one in reversed(relative) if one[0].position == "before"]
    for rule, message in (*first, *(one for one in relative if one[0].position == "after")):
        for place in reversed(_anchors(messages, rule.target)):
            size.add(message)
            messages.insert(place if rule.position == "before" else place + 1, message)
    for rule, message in sorted((one for one in inserts if one[0].kind == "depth"), key=_deepest_first):
        size.add(message)
        place = len(messages) - rule.depth if rule.depth < len(messages) else _first_system(messages) + 1
        messages.insert(place, message)
    return messages


def _deepest_first(one: tuple[Rule, Message]) -> int:
    return -one[0].depth


def _anchors(messages: Sequence[Message], target: str) -> list[int]:
    """Where a target is now, in order; empty when the conversation has none."""
    if target == "system":
        found = _first_system(messages)
        return [] if found < 0 else [found]
    if target == "last_user":
        found = next((place for place in range(len(messages) - 1, -1, -1) if _is_user(messages[place])), -1)
        return [] if found < 0 else [found]
    users = (place for place, message in enumerate(messages) if _is_user(message))
    return list(users) if target == "all_user" else _first(users)


def _first(places: Iterable[int]) -> list[int]:
    return [place for place, _ in zip(places, range(1), strict=False)]


def _first_system(messages: Sequence[Message]) -> int:
    return next((place for place, message in enumerate(messages) if is_system(message)), -1)


def is_system(message: Message) -> bool:
    """Whether the role is ``system`` or the newer word for it."""
    return message.get("role") in ("system", "developer")


def _is_user(message: Message) -> bool:
    return message.get("role") == "user"


def _message(rule: Rule, resolve: Resolve) -> Message:
    content = resolve(rule.content) if isinstance(rule.content, str) else [_part(one, resolve) for one in rule.content]
    return {"role": rule.role, "content": content}


def _part(part: Message, resolve: Resolve) -> Message:
    return {**part, "text": resolve(part["text"])} if part["type"] == "text" else dict(part)


def _embedded(message: Message, text: str, *, before: bool) -> Message:
    """The message with the text, a blank line between them; a list of parts gets it in its first or last text part."""
    content = message.get("content")
    if isinstance(content, list):
        texts = [place for place, part in enumerate(content) if _is_text(part)]
        if not texts:
            part = {"type": "text", "text": text}
            return {**message, "content": [part, *content] if before else [*content, part]}
        place = texts[0] if before else texts[-1]
        joined = _joined(content[place]["text"], text, before)
        return {**message, "content": [*content[:place], {**content[place], "text": joined}, *content[place + 1 :]]}
    return {**message, "content": _joined(content if isinstance(content, str) else "", text, before)}


def _is_text(part: object) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)


def _joined(old: str, text: str, before: bool) -> str:
    if not old:
        return text
    return f"{text}\n\n{old}" if before else f"{old}\n\n{text}"


class _Size:
    def __init__(self) -> None:
        self._left = INSERTED_LIMIT

    def add(self, value: str | Message) -> None:
        content = value if isinstance(value, str) else value["content"]
        texts = [content] if isinstance(content, str) else [str(part) for part in content]
        self._left -= sum(len(text) for text in texts) + 1
        if self._left < 0:
            raise TooMuchError(f"the preset puts more than {INSERTED_LIMIT} characters into the conversation")
