"""A prompt before and after expansion, and who put in which part of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from app.extend import Json, Message, Piece, PromptExpanded, Trust
from app.observe.traces.texts import Texts

MAX_MESSAGES = 1_000
"""Messages of one prompt that are kept, the first and the last ones."""

MAX_RUNS = 2_000
"""Pieces of one text; further ones become one."""

MAX_TRIED = 50
"""Expanded texts that are looked for inside of one that was changed later."""

MAX_ROLE = 40

MAX_SEARCHED = 1_000_000
"""Characters of a changed text in which the expanded one is looked for."""

LATER = "later"
"""Source of text that a phase after the expansion wrote, and of what cannot be told apart."""

Run = list[Any]
"""Source, trust, number of characters."""


def agent_of(event: PromptExpanded) -> str:
    """The first agent whose text stands in the prompt, or nothing."""
    sources = (piece.source for text in event.texts for piece in text.pieces)
    return next((source.removeprefix("agent:") for source in sources if source.startswith("agent:")), "")


def prompt_document(event: PromptExpanded, texts: Texts) -> dict[str, Json]:
    """``before`` and ``after`` as lists of messages, ``origins`` of the texts in ``after``, fields of the request.

    An origin is ``{"message", "part", "runs": [[source, trust, characters], …]}``; the runs together are as long as
    the text that is kept. Without texts a message holds ``{"chars": n}`` in the place of each.
    """
    before = event.before["messages"]
    request = {name: value for name, value in event.before.items() if name != "messages"}
    kept = _kept(len(event.sent))
    known = {"".join([piece.text for piece in text.pieces]): text.pieces for text in event.texts}
    after: list[Json] = []
    origins: list[Json] = []
    for index in kept:
        message, found = _after(event.sent[index], known, texts)
        after.append(message)
        origins += [{"message": len(after) - 1, "part": part, "runs": runs} for part, runs in found]
    return {
        "request": texts.value(request) if texts.full else {"fields": sorted(map(str, request))},
        "before": [_message(before[index], texts) for index in _kept(len(before))],
        "after": after,
        "origins": origins,
        "left_out": max(len(before), len(event.sent)) - max(len(_kept(len(before))), len(kept)),
    }


def _kept(count: int) -> Sequence[int]:
    if count <= MAX_MESSAGES:
        return range(count)
    half = MAX_MESSAGES // 2
    return (*range(half), *range(count - half, count))


def _message(message: Message, texts: Texts) -> dict[str, Json]:
    shown = _form(message, texts)
    content = message.get("content")
    if isinstance(content, str):
        shown["content"] = texts.text(content)
    elif isinstance(content, list):
        shown["content"] = [_part(part, texts) for part in content]
    return shown


def _form(message: Message, texts: Texts) -> dict[str, Json]:
    """A message without its content; without texts only its role."""
    if not texts.full or message.keys() <= {"role", "content"}:
        return {"role": texts.name(str(message.get("role")))[:MAX_ROLE]}
    cleaned: dict[str, Json] = texts.value({name: value for name, value in message.items() if name != "content"})
    return cleaned


def _part(part: Json, texts: Texts) -> Json:
    if texts.full:
        return texts.value(part)
    kind = part.get("type") if isinstance(part, Mapping) else ""
    return {"type": str(kind)[:MAX_ROLE], **texts.value(part)}


def _after(
    message: Message, known: Mapping[str, Sequence[Piece]], texts: Texts
) -> tuple[dict[str, Json], list[tuple[int | None, list[Run]]]]:
    shown = _form(message, texts)
    content = message.get("content")
    if isinstance(content, str):
        shown["content"], runs = _text(content, known, texts)
        return shown, [(None, runs)]
    found: list[tuple[int | None, list[Run]]] = []
    if isinstance(content, list):
        parts: list[Json] = []
        for number, part in enumerate(content):
            if isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str):
                text, runs = _text(part["text"], known, texts)
                parts.append({"type": "text", "text": text})
                found.append((number, runs))
            else:
                parts.append(_part(part, texts))
        shown["content"] = parts
    return shown, found


def _text(text: str, known: Mapping[str, Sequence[Piece]], texts: Texts) -> tuple[Json, list[Run]]:
    """The text as it is kept, and its runs."""
    pieces = known.get(text)
    if pieces is None:
        pieces = _around(text, known)
    if not texts.full:
        return {"chars": len(text)}, _runs((piece, len(piece.text)) for piece in pieces)
    short = texts.shortened(text)
    if len(short) < len(text):
        pieces = tuple(_first(pieces, len(short)))
    cleaned = texts.clean(short)
    if cleaned == short:
        runs = _runs((piece, len(piece.text)) for piece in pieces)
    else:
        parts = [(piece, texts.clean(piece.text)) for piece in pieces]
        if "".join([part for _, part in parts]) == cleaned:
            runs = _runs((piece, len(part)) for piece, part in parts)
        else:  # a secret lies across two pieces
            runs = [[LATER, "mixed", len(cleaned)]]
    kept = texts.cut(cleaned, len(text) - len(short))
    return kept, _fitted(runs, len(kept))


def _first(pieces: Iterable[Piece], length: int) -> Iterator[Piece]:
    """The pieces of the first so many characters."""
    for piece in pieces:
        if length <= 0:
            return
        yield piece if len(piece.text) <= length else Piece(piece.text[:length], piece.source, piece.trust)
        length -= len(piece.text)


def _around(text: str, known: Mapping[str, Sequence[Piece]]) -> Sequence[Piece]:
    """The pieces of a text that a later phase has added something to, as far as the expanded one is still in it."""
    for expanded, pieces in islice(known.items(), MAX_TRIED if len(text) <= MAX_SEARCHED else 0):
        place = text.find(expanded) if len(expanded) >= 16 else -1
        if place >= 0:
            return (
                Piece(text[:place], LATER, Trust.DATA),
                *pieces,
                Piece(text[place + len(expanded) :], LATER, Trust.DATA),
            )
    return (Piece(text, LATER, Trust.DATA),)


def _runs(parts: Iterable[tuple[Piece, int]]) -> list[Run]:
    runs: list[Run] = []
    for piece, length in parts:
        if not length:
            continue
        if runs and (runs[-1][0] == piece.source and runs[-1][1] == piece.trust.value):
            runs[-1][2] += length
        elif len(runs) >= MAX_RUNS:
            runs[-1] = [LATER, "mixed", runs[-1][2] + length]
        else:
            runs.append([piece.source[:200], piece.trust.value, length])
    return runs


def _fitted(runs: list[Run], length: int) -> list[Run]:
    """The runs for a text of which only so many characters are kept."""
    fitted: list[Run] = []
    left = length
    for source, trust, chars in runs:
        if left <= 0:
            break
        fitted.append([source, trust, min(chars, left)])
        left -= chars
    if left > 0 and fitted:
        fitted[-1][2] += left
    return fitted
