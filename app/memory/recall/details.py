"""What those who watch the inner workings are told of recall (memory.md 2.9, 5.5, 5.6; vcp-core 6.5)."""

from __future__ import annotations

from datetime import datetime, time, tzinfo
from typing import Any

from app.extend import Json
from app.memory.ranking.requests import DateRange, Hit, RecallQuery
from app.memory.recall.answer import Answer, ChainAnswer
from app.protocol.recall import ChainDeclaration, NotebookDeclaration

LAST_MOMENT = time(23, 59, 59, 999_000)


def details_of(answer: Answer, query: RecallQuery) -> dict[str, Json] | None:
    """The message for one declaration; None for one that asked for nothing."""
    declaration = answer.declaration
    if isinstance(declaration, ChainDeclaration) and answer.chain is not None and answer.chain.known:
        return _chain(answer.chain, declaration, query)
    if not isinstance(declaration, NotebookDeclaration):
        return None
    if answer.ai_memo is not None:
        return _ai_memo(answer, query)
    return _retrieval(answer, declaration, query) if answer.retrieved is not None else None


def shown_query(query: RecallQuery) -> str:
    """The question as events show it: ``[AI]: …`` above ``[User]: …`` when both are there."""
    if query.user and query.assistant:
        return f"[AI]: {query.assistant}\n[User]: {query.user}"
    return query.user or query.assistant


def _retrieval(answer: Answer, declaration: NotebookDeclaration, query: RecallQuery) -> dict[str, Json]:
    modifiers, retrieval = declaration.modifiers, answer.retrieval
    tags = [tag for hit in answer.hits for tag in hit.matched_tags]
    message: dict[str, Any] = {
        "type": "RAG_RETRIEVAL_DETAILS",
        "dbName": declaration.title if declaration.cold else declaration.name,
        "query": shown_query(query),
        "k": retrieval.k if retrieval is not None else 0,
        "useTime": modifiers.time and bool(query.ranges),
        "useGroup": modifiers.group,
        "useRerank": modifiers.rerank,
        "useTagMemo": modifiers.tags,
        "tagWeight": modifiers.tag_boost,
        "results": [_result(hit) for hit in sorted(answer.hits, key=lambda hit: -hit.score)],
    }
    if modifiers.time:
        zone = query.now.tzinfo
        message["timeRanges"] = [_range(span, zone) for span in query.ranges]
    if modifiers.tags:
        tagged = [hit for hit in answer.hits if hit.matched_tags]
        message["tagStats"] = {
            "uniqueMatchedTags": sorted(set(tags)),
            "totalTagMatches": len(tags),
            "resultsWithTags": len(tagged),
            "avgBoostFactor": round(1 + sum(hit.parts.get("tags", 0.0) for hit in answer.hits) / len(answer.hits), 6)
            if answer.hits
            else 1,
        }
    if answer.from_cache:
        message["fromCache"] = True
    return message


def _result(hit: Hit) -> dict[str, Json]:
    shown: dict[str, Any] = {"text": hit.text, "score": hit.score, "source": hit.source}
    if hit.chunk.day is not None:
        shown["date"] = hit.chunk.day.isoformat()
    if hit.similarity is not None:
        shown["originalScore"] = hit.similarity
    if hit.matched_tags:
        boost = hit.parts.get("tags", 0.0)
        shown |= {"tagMatchScore": boost, "boostFactor": 1 + boost}
        shown |= {"matchedTags": list(hit.matched_tags), "tagMatchCount": len(hit.matched_tags)}
    return shown


def _range(span: DateRange, zone: tzinfo | None) -> dict[str, Json]:
    return {
        "start": datetime.combine(span.first, time(), zone).isoformat(timespec="milliseconds"),
        "end": datetime.combine(span.last, LAST_MOMENT, zone).isoformat(timespec="milliseconds"),
    }


def _chain(chain: ChainAnswer, declaration: ChainDeclaration, query: RecallQuery) -> dict[str, Json]:
    return {
        "type": "META_THINKING_CHAIN",
        "chainName": chain.chain,
        "query": shown_query(query),
        "useGroup": declaration.call.group,
        "activatedGroups": [group.name for group in chain.groups],
        "stages": [
            {
                "stage": number,
                "clusterName": stage.cluster,
                "k": stage.k,
                "resultCount": len(stage.hits),
                "results": [{"text": text, "score": score} for text, score in stage.hits],
            }
            for number, stage in enumerate(chain.stages, 1)
        ],
        "totalStages": len(chain.stages),
    }


def _ai_memo(answer: Answer, query: RecallQuery) -> dict[str, Json]:
    told = answer.ai_memo
    assert told is not None
    message: dict[str, Any] = {
        "type": "AI_MEMO_RETRIEVAL",
        "dbNames": list(told.notebooks),
        "query": shown_query(query),
        "mode": "aggregated_batched" if told.batches > 1 else "aggregated_single",
        "diaryCount": len(told.notebooks),
        "fileCount": told.files,
        "extractedMemories": told.text,
    }
    if told.batches > 1:
        message["batchCount"] = told.batches
    elif told.raw:
        message["rawResponse"] = told.raw[0]
    if told.from_cache:
        message["fromCache"] = True
    return message
