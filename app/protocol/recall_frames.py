"""Wire literals of memory: the frames around recalled text (memory.md 2.7, 5.5, 5.6, 6.1), to the byte (D20, D78).

Everything that is recalled is put in literally, byte for byte (D79); nothing here searches or escapes it. Frames begin
and end with a newline.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from app.protocol.blanks import trimmed
from app.protocol.prompt_texts import DIARY_SUFFIX

# --- in place of declarations (2.2) ----------------------------------------------------------------------------------

DECLARATION_REMOVED = "[循环占位符已移除]"
"""In place of a declaration inside a full text that a declaration put in."""

RECALL_FAILED = "[RAG处理失败]"
NOTHING_FOUND = "没有找到直接相关的记忆片段。"


def already_recalled(title: str) -> str:
    """In place of a notebook that the request has already; ``title`` with 日记本."""
    return f'[检测到循环引用，已跳过"{title}"的解析]'


# --- hits ------------------------------------------------------------------------------------------------------------

_DATED = re.compile(r"\[?(?P<year>[0-9]{4})[-.](?P<month>[0-9]{1,2})[-.](?P<day>[0-9]{1,2})(?![0-9])\]?")
_PREFIX = re.compile(r"\[(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})\][ ]?(?:-[ ]?)?")


@dataclass(frozen=True, slots=True)
class FrameHit:
    """One recalled text; ``day`` is the date of its note where one is known."""

    text: str
    day: date | None = None


@dataclass(frozen=True, slots=True)
class FrameGroup:
    """A semantic group that fired: its strength from 0 to 1, and the words that did it."""

    name: str
    strength: float
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FrameStage:
    """One stage of a thinking chain; ``error`` is the reason why it could not run."""

    cluster: str
    texts: tuple[str, ...]
    degraded: bool = False
    error: str = ""


def heading_date(text: str) -> date | None:
    """The date with which a note's or chunk's text begins, in brackets or not, with hyphens or dots (F3)."""
    match = _DATED.match(text.lstrip())
    if match is None:
        return None
    try:
        return date(int(match["year"]), int(match["month"]), int(match["day"]))
    except ValueError:
        return None


def hit_line(hit: FrameHit, *, dates: bool = True) -> str:
    """``* T``; T begins with the date when the text does not bring it itself and it is known (D78, 11.14).

    ``dates`` is the setting ``RecallDates``.
    """
    text = trimmed(hit.text)
    if dates and hit.day is not None and heading_date(text) is None:
        return f"* [{hit.day.isoformat()}] {text}"
    return f"* {text}"


def dated_line(hit: FrameHit, *, dates: bool = True) -> str:
    """A hit in the Time frame: its date in brackets, then the text without its own (F2).

    ``[2025-11-27] - 小克`` becomes ``* [2025-11-27] 小克``. A text whose date is written otherwise keeps it.
    """
    text = trimmed(hit.text)
    match = _PREFIX.match(text)
    if match is not None and heading_date(match[0]) is not None:
        return f"* [{match['date']}] {text[match.end() :]}"
    return hit_line(hit, dates=dates)


def _lines(hits: Sequence[FrameHit], dates: bool) -> str:
    return "\n".join(hit_line(hit, dates=dates) for hit in hits) if hits else NOTHING_FOUND


# --- frames (2.7) ----------------------------------------------------------------------------------------------------


def standard_frame(title: str, hits: Sequence[FrameHit], *, dates: bool = True) -> str:
    """The frame of plain fragments (F1); ``title`` is NAME: the notebook with 日记本."""
    return f'\n[--- 从"{title}"中检索到的相关记忆片段 ---]\n{_lines(hits, dates)}\n[--- 记忆片段结束 ---]\n'


def percent(share: float, decimals: int = 0) -> str:
    """A share as people read it, halves rounded up: ``0.125`` is ``13%``."""
    scale = 10**decimals
    return f"{_half_up(share * 100 * scale) / scale:.{decimals}f}%"


def _half_up(value: float) -> int:
    return int(value + 0.5) if value >= 0 else -int(-value + 0.5)


def group_frame(title: str, groups: Sequence[FrameGroup], hits: Sequence[FrameHit], *, dates: bool = True) -> str:
    """The frame of ``::Group``: the groups that fired, how many texts, the texts."""
    if groups:
        fired = "[激活的语义组:]\n" + "".join(
            f'  • {group.name} ({percent(group.strength)}激活): 匹配到 "{", ".join(group.words)}"\n' for group in groups
        )
    else:
        fired = "[未激活特定语义组]\n"
    return (
        f'\n[--- "{title}" 语义组增强检索结果 ---]\n{fired}\n'
        f"[检索到 {len(hits)} 条相关记忆]\n{_lines(hits, dates)}\n[--- 检索结束 ---]\n"
    )


def time_frame(
    title: str,
    ranges: Sequence[tuple[date, date]],
    related: Sequence[FrameHit],
    in_time: Sequence[FrameHit],
    *,
    dates: bool = True,
) -> str:
    """The frame of ``::Time``: days in the configured zone (F4), what is related, then what lies in the ranges.

    ``in_time`` comes newest first; the caller has removed what stands in both.
    """
    shown = " 和 ".join(f'"{first.isoformat()} ~ {last.isoformat()}"' for first, last in ranges)
    parts = [
        f'\n[--- "{title}" 多时间感知检索结果 ---]\n[合并查询的时间范围: {shown}]\n'
        f"[统计: 共找到 {len(related) + len(in_time)} 条不重复记忆 "
        f"(语义相关 {len(related)}条, 时间范围 {len(in_time)}条)]\n\n"
    ]
    if related:
        parts.append("【语义相关记忆】\n" + "".join(f"{dated_line(hit, dates=dates)}\n" for hit in related))
    if in_time:
        parts.append("\n【时间范围记忆】\n" + "".join(f"{dated_line(hit, dates=dates)}\n" for hit in in_time))
    parts.append("[--- 检索结束 ---]\n")
    return "".join(parts)


# --- thinking chains (5.5) -------------------------------------------------------------------------------------------

THINKING_CHAIN = "VCP元思考"
CHAIN_END = "[--- 元思考链结束 ---]"


def chain_missing(name: str) -> str:
    """In place of a thinking chain that is not defined."""
    return f'[错误: 未找到"{name}"思维链定义]'


def chain_frame(
    chain: str, stages: Sequence[FrameStage], groups: Sequence[FrameGroup] = (), *, auto: bool = False
) -> str:
    """The frame of a thinking chain. ``groups`` are those that fired; only names and strengths are shown."""
    lines = [f'[--- VCP元思考链: "{chain}"{" (Auto模式)" if auto else ""}  ---]']
    if groups:
        lines.append(f"[语义组增强: {', '.join(f'{group.name}({percent(group.strength)})' for group in groups)}]")
    if auto:
        lines.append(f'[自动选择主题: "{chain}"]')
    lines += [f"[推理链路径: {' → '.join(stage.cluster for stage in stages)}]", ""]
    for number, stage in enumerate(stages, 1):
        lines.append(f"【阶段{number}: {stage.cluster}】{' [降级模式]' if stage.degraded else ''}")
        if stage.error:
            lines.append(f"  [错误: {stage.error}]")
        elif not stage.texts:
            lines.append("  [未找到匹配的元逻辑模块]")
        else:
            lines.append(f"  [召回 {len(stage.texts)} 个元逻辑模块]")
            lines += [f"  * {trimmed(text)}" for text in stage.texts]
    return "\n" + "\n".join([*lines, "", CHAIN_END]) + "\n"


# --- AIMemo (5.6) ----------------------------------------------------------------------------------------------------

AI_MEMO_LICENCE = "[[AIMemo=True]]"
AI_MEMO_UNCONFIGURED = "[AIMemo功能未配置]"
AI_MEMO_LEAD = "这是我获取的所有相关知识/记忆"
AI_MEMO_NOTHING = "[[未找到相关记忆]]"
AI_MEMO_EMPTY = "[[知识库为空]]"
AI_MEMO_NO_REPLY = "[无AI回复]"
AI_MEMO_FILE_SEPARATOR = "\n\n---\n\n"
AI_MEMO_KNOWLEDGE = "{{knowledge_base}}"
AI_MEMO_USER = "{{current_user_prompt}}"
AI_MEMO_ASSISTANT = "{{last_assistant_response}}"


def ai_memo_file(notebook: str, text: str) -> str:
    """One file of the corpus, with its notebook above it."""
    return f"=== {notebook}{DIARY_SUFFIX} ===\n{text}"


def ai_memo_result(notebooks: Sequence[str], text: str) -> str:
    """What stands in place of the first of the declarations that are answered together."""
    return f"[跨库联合检索: {' + '.join(notebooks)}]\n{text}"


def ai_memo_pointer(notebook: str) -> str:
    """What stands in place of the others: where the answer is. Not a wire literal."""
    return f'[AIMemo: 已在"{notebook}{DIARY_SUFFIX}"处一并检索 / retrieved together with "{notebook}{DIARY_SUFFIX}"]'


# --- LightMemo (6.1) -------------------------------------------------------------------------------------------------

LIGHT_MEMO_TAGS = 5
"""Tags that are shown for a hit."""


@dataclass(frozen=True, slots=True)
class LightMemoHit:
    """One answer of LightMemo; ``kind`` is 混合, Rerank, 向量 or BM25, ``score`` from 0 to 1."""

    text: str
    notebook: str
    score: float
    kind: str
    tags: tuple[str, ...] = ()


def light_memo_frame(query: str, notebooks: Sequence[str], hits: Sequence[LightMemoHit]) -> str:
    """The answer of LightMemo; notebooks are shown as they are named."""
    lines = [
        "[--- LightMemo 轻量回忆 ---]",
        f'[查询内容: "{query}"]',
        f"[搜索范围: {', '.join(notebooks)}]",
        "",
        f"[找到 {len(hits)} 条相关记忆片段:]",
    ]
    for hit in hits:
        score = percent(hit.score, 1) if hit.score > 0 else "N/A"
        lines.append(f"--- (来源: {hit.notebook}, 相关性: {score}({hit.kind}))")
        if hit.tags:
            lines.append(f"    [TagMemo 增强: {', '.join(hit.tags[:LIGHT_MEMO_TAGS])}]")
        lines.append(trimmed(hit.text))
    return "\n" + "\n".join([*lines, "", "[--- 回忆结束 ---]"]) + "\n"


def light_memo_no_author(maid: str) -> str:
    """The answer of LightMemo when no note is signed so."""
    return f'没有找到署名为 "{maid}" 的相关记忆。'


def light_memo_nothing(query: str) -> str:
    """The answer of LightMemo when no fragment fits."""
    return f'关于"{query}"，没有找到包含相关关键词的记忆片段。'
