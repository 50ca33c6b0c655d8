"""From hits to the frames that prompts rely on (memory.md 2.7, 5.5, D78)."""

from __future__ import annotations

from collections.abc import Sequence

from app.memory.ranking.requests import GroupActivation, Hit, RecallQuery
from app.memory.recall.answer import ChainAnswer
from app.protocol import recall_frames as frames
from app.protocol.recall import NotebookDeclaration


def fragments_text(
    declaration: NotebookDeclaration,
    query: RecallQuery,
    hits: Sequence[Hit],
    groups: Sequence[GroupActivation],
    *,
    dates: bool,
) -> str:
    """The frame that the modifiers and the question call for: Time, Group or Standard."""
    title = declaration.title
    if declaration.modifiers.time and query.ranges:
        ranges = [(span.first, span.last) for span in query.ranges]
        related = [_hit(hit) for hit in hits if hit.source != "time"]
        in_time = [_hit(hit) for hit in hits if hit.source == "time"]
        return frames.time_frame(title, ranges, related, in_time, dates=dates)
    shown = [_hit(hit) for hit in hits]
    if declaration.modifiers.group:
        return frames.group_frame(title, _groups(groups), shown, dates=dates)
    return frames.standard_frame(title, shown, dates=dates)


def chain_text(answer: ChainAnswer) -> str:
    """The frame of a thinking chain, or that there is none of this name."""
    if not answer.known:
        return frames.chain_missing(answer.chain)
    stages = [
        frames.FrameStage(stage.cluster, tuple(text for text, _ in stage.hits), stage.degraded, stage.fault)
        for stage in answer.stages
    ]
    return frames.chain_frame(answer.chain, stages, _groups(answer.groups), auto=answer.auto)


def _hit(hit: Hit) -> frames.FrameHit:
    return frames.FrameHit(hit.text, hit.chunk.day)


def _groups(groups: Sequence[GroupActivation]) -> list[frames.FrameGroup]:
    return [frames.FrameGroup(group.name, group.strength, group.matched) for group in groups]
