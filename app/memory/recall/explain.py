"""Why a prompt remembers what it remembers: every declaration with all that led to its text (memory.md 11.29)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.extend import Json
from app.memory.ranking.requests import DateRange, GateValue, Hit
from app.memory.recall.answer import Answer
from app.memory.recall.recaller import Recaller, Request
from app.memory.recall.source import MAX_DECLARATIONS
from app.protocol.recall import ChainDeclaration, NotebookDeclaration, find_declarations
from app.protocol.recall_query import reference_tokens

MAX_TEXT_CHARS = 4_000
"""Of each text that is shown."""


async def explained(recaller: Recaller, texts: Sequence[str], messages: Sequence[Mapping[str, Any]]) -> Json:
    """All declarations in ``texts`` (operator text, already expanded) answered for a conversation.

    Nothing is kept in caches and nobody is told. Texts are shown up to ``MAX_TEXT_CHARS`` characters.
    """
    found = dict.fromkeys(declaration for text in texts for _, declaration in find_declarations(text))
    declarations = list(found)[:MAX_DECLARATIONS]
    request = await recaller.request(declarations, messages, keep=False)
    answers = await recaller.answers(declarations, request)
    return {
        "question": _question(request),
        "budget": {
            "perDeclaration": request.rules.declaration_tokens,
            "perRequest": request.rules.request_tokens,
            "used": sum(hit.tokens for answer in answers for hit in answer.hits),
        },
        "declarations": [_declaration(answer) for answer in answers],
        "leftOut": max(0, len(found) - len(declarations)),
    }


def _question(request: Request) -> dict[str, Json]:
    query = request.query
    return {
        "user": query.user[:MAX_TEXT_CHARS],
        "assistant": query.assistant[:MAX_TEXT_CHARS],
        "previousUser": query.previous_user[:MAX_TEXT_CHARS],
        "now": query.now.isoformat(timespec="seconds"),
        "timeRanges": [_range(span) for span in query.ranges],
        "softTimeRanges": [_range(span) for span in query.soft_ranges],
        "messages": dict(request.counts),
    }


def _range(span: DateRange) -> dict[str, Json]:
    return {"first": span.first.isoformat(), "last": span.last.isoformat(), "soft": span.soft}


def _declaration(answer: Answer) -> dict[str, Json]:
    declaration, text = answer.declaration, answer.text
    shown: dict[str, Any] = {
        "declaration": declaration.text[:MAX_TEXT_CHARS],
        "outcome": answer.outcome.value,
        "warnings": list(declaration.warnings),
        "why": answer.why,
        "tokens": reference_tokens(text or ""),
        "text": None if text is None else text[:MAX_TEXT_CHARS],
    }
    if isinstance(declaration, NotebookDeclaration):
        shown |= {
            "form": declaration.form.name.lower(),
            "notebooks": [name[:MAX_TEXT_CHARS] for name in declaration.notebooks],
            "gates": [_gate(value) for value in answer.gates],
            "gate": None if answer.gate is None else _gate(answer.gate),
        }
    if isinstance(declaration, ChainDeclaration) and answer.chain is not None:
        shown["chain"] = {
            "name": answer.chain.chain,
            "known": answer.chain.known,
            "stages": [
                {"cluster": stage.cluster, "k": stage.k, "found": len(stage.hits), "fault": stage.fault}
                for stage in answer.chain.stages
            ],
        }
    if answer.retrieval is not None and answer.retrieved is not None:
        shown |= {
            "k": answer.retrieval.k,
            "hits": [_hit(hit) for hit in answer.hits],
            "dropped": [
                {"chunk": one.chunk_id, "score": one.score, "reason": one.reason}
                for one in (*answer.cut, *answer.retrieved.dropped)
            ],
            "groups": [
                {"name": group.name, "strength": group.strength, "matched": list(group.matched)}
                for group in answer.retrieved.groups
            ],
            "tags": dict(answer.retrieved.tags),
            "lexicalOnly": answer.retrieved.lexical_only,
            "notes": list(answer.retrieved.notes),
        }
    if answer.ai_memo is not None:
        shown["aiMemo"] = {"files": answer.ai_memo.files, "batches": answer.ai_memo.batches}
    return shown


def _gate(value: GateValue) -> dict[str, Json]:
    return {
        "notebook": value.notebook,
        "value": value.value,
        "cosine": value.raw,
        "by": value.by,
        "threshold": value.threshold,
        "open": value.open,
    }


def _hit(hit: Hit) -> dict[str, Json]:
    return {
        "chunk": hit.chunk.id,
        "notebook": hit.chunk.notebook,
        "path": hit.chunk.path,
        "day": None if hit.chunk.day is None else hit.chunk.day.isoformat(),
        "score": hit.score,
        "source": hit.source,
        "similarity": hit.similarity,
        "parts": dict(hit.parts),
        "matchedTags": list(hit.matched_tags),
        "tokens": hit.tokens,
        "text": hit.text[:MAX_TEXT_CHARS],
    }
