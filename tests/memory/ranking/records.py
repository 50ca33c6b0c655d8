"""Chunks, candidates and hits made by hand."""

from __future__ import annotations

from datetime import date

from app.memory.index.records import ChunkRecord
from app.memory.ranking.requests import Hit


def record(
    chunk: int,
    text: str = "正文",
    *,
    note: int | None = None,
    ordinal: int = 0,
    day: date | None = None,
    notebook: str = "小克",
    path: str = "",
    tags: tuple[str, ...] = (),
    author: str = "小克",
    start: int = 0,
    tokens: int | None = None,
) -> ChunkRecord:
    """A chunk of a note of its own, unless ``note`` says which."""
    of_note = chunk if note is None else note
    return ChunkRecord(
        id=chunk,
        note_id=of_note,
        notebook=notebook,
        path=path or f"{notebook}/{of_note}.txt",
        ordinal=ordinal,
        start=start,
        end=start + len(text),
        tokens=len(text) if tokens is None else tokens,
        text=text,
        embed_sha=bytes(32),
        day=day,
        author=author,
        title="",
        tags=tags,
    )


def hit(chunk: int, text: str = "正文。", *, score: float = 1.0, source: str = "rag", **more: object) -> Hit:
    """A hit of such a chunk; a character is a token."""
    made = record(chunk, text, **more)  # type: ignore[arg-type]  # the same keywords, handed on
    return Hit(made, made.text, made.tokens, score, source, None)
