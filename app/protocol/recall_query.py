"""What a conversation asks memory for: its texts, cleaned, and how much it gets (memory.md 2.3, 2.4, 2.8; 11.18)."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.protocol import markers
from app.protocol.blanks import trimmed

SYSTEM_NOTES = ("[系统邀请指令:", "[系统提示:")
"""Texts under the role user that begin like this were not written by the user (2.3)."""

MAX_QUERY_CHARS = 32_000
"""Longest cleaned text; of a longer one the beginning and the end are kept, for questions stand at either."""

MAX_TAG_CHARS = 4096
MIN_BASE64_CHARS = 256
"""A row of letters and digits from this length on is data, not a word."""

MAX_K = 1000
"""Most fragments that one declaration can ask for."""

MAX_FOLLOW_UP_CHARS = 30

# --- cleaning (2.3) --------------------------------------------------------------------------------------------------

_BLOCKS = (
    (markers.TOOL_REQUEST_START, markers.TOOL_REQUEST_END),
    (markers.SHOW_VCP_START, markers.HEAD_SHOW_VCP_END),
    (markers.SHOW_VCP_START, f"\n{markers.SHOW_VCP_END}"),
    ("<<<DailyNoteStart>>>", "<<<DailyNoteEnd>>>"),
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<script", "</script>"),
    ("<style", "</style>"),
    ("<!--", "-->"),
)
"""What machines wrote into a text, from and up to; left out of queries, in this order."""

_DATA_URI = re.compile(r"data:[\w.+-]{1,64}/[\w.+-]{1,64}(?:;[\w=.+-]{1,64}){0,8},[A-Za-z0-9+/=_%.~-]*+")
_BASE64 = re.compile(rf"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{{{MIN_BASE64_CHARS},}}+={{0,2}}")
_BREAK = re.compile(
    r"<(?:/?(?:p|div|li|tr|h[1-6]|ul|ol|table|blockquote|pre|section)|br)"
    rf"(?:[\s/][^<>]{{0,{MAX_TAG_CHARS}}}+)?>",
    re.IGNORECASE,
)
_TAG = re.compile(rf"</?[A-Za-z][^<>]{{0,{MAX_TAG_CHARS}}}+>")
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_EMOJI = re.compile(
    "[\U0001f000-\U0001fbff\u2600-\u27bf\u2b00-\u2bff\u231a\u231b\u2328\u23cf\u23e9-\u23f3\u23f8-\u23fa\u3030\u303d"
    "\u3297\u3299\u200d\u20e3\ufe00-\ufe0f\U000e0020-\U000e007f\U000e0100-\U000e01ef\ud800-\udfff]"
)
_NEWLINES = re.compile(r"\n(?:[ \t]*+\n)+")


def clean_query(text: str) -> str:
    """The text that is embedded and searched with, at most MAX_QUERY_CHARS characters.

    Without what machines wrote (tool blocks and results, thoughts, data URIs, base64), HTML turned to text, no emoji,
    no variation selectors, no halves of characters, runs of empty lines made one line end, trimmed. Time is linear.
    """
    for start, end in _BLOCKS:
        text = _without(text, start, end)
    text = _BASE64.sub(" ", _DATA_URI.sub(" ", text))
    text = _TAG.sub("", _BREAK.sub("\n", text))
    text = _ENTITY.sub(lambda match: html.unescape(match[0]), text)
    text = _EMOJI.sub("", text.replace("\r\n", "\n"))
    return _shortened(trimmed(_NEWLINES.sub("\n", text)))


def _without(text: str, start: str, end: str) -> str:
    """The text without everything from a ``start`` up to its ``end``; one that is not closed stays."""
    kept, position = [], 0
    while (opened := text.find(start, position)) >= 0 and (closed := text.find(end, opened + len(start))) >= 0:
        kept.append(text[position:opened])
        position = closed + len(end)
    return "".join([*kept, text[position:]]) if position else text


def _shortened(text: str) -> str:
    half = MAX_QUERY_CHARS // 2
    return text if len(text) <= MAX_QUERY_CHARS else f"{text[: half - 1]}\n{text[-half:]}"


# --- whose texts (2.3) -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QueryTexts:
    """The texts of a conversation that memory is asked with, cleaned; empty where there is none.

    ``user`` is the last one the user wrote, ``previous_user`` the one before it, ``assistant`` the last answer.
    """

    user: str = ""
    assistant: str = ""
    previous_user: str = ""


def query_texts(messages: Sequence[Mapping[str, Any]]) -> QueryTexts:
    """Choose the texts of a conversation (2.3).

    Texts under the role user that begin with one of SYSTEM_NOTES or hold tool results are passed over, and so are
    messages without a text. Of a list of content parts the first text counts.
    """
    users: list[str] = []
    assistant = ""
    for message in reversed(messages):
        role = message.get("role")
        if role == "user" and len(users) < 2:
            text = _first_text(message.get("content"))
            if not trimmed(text).startswith((*SYSTEM_NOTES, markers.HEAD_PAYLOAD_MARK)) and (
                cleaned := clean_query(text)
            ):
                users.append(cleaned)
        elif role == "assistant" and not assistant:
            assistant = clean_query(_first_text(message.get("content")))
        if len(users) == 2 and assistant:
            break
    return QueryTexts(users[0] if users else "", assistant, users[1] if len(users) > 1 else "")


def _first_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    for part in content:
        if isinstance(part, str) and part.strip():
            return part
        if isinstance(part, Mapping) and isinstance(text := part.get("text"), str) and text.strip():
            return text
    return ""


# --- follow-ups (11.18) ----------------------------------------------------------------------------------------------

_POINTING_TEXT = (
    "那后来 后来 然后 接着 接下来 继续 那么 那 还有 还 这个 那个 这些 那些 这样 那样 这里 那里 这 他们 "
    "她们 它们 他 她 它 为什么 为何 怎么样 怎样 怎么 咋样 咋 结果 最后 最终 详细 具体 展开 再 呢 所以 之后 "
    "and then next he she it they him her them that this those these why more continue else so after his its their "
    "further elaborate again"
)
_EMPTY_TEXT = (
    "什么 啥 谁 哪里 哪个 哪 多少 几 吗 吧 啊 呀 嘛 哦 嗯 了 的 地 得 是 有 没有 没 不 会 要 能 可以 别的 其他 其它 "
    "说说 说 讲讲 讲 一点 一下 些 点 下 真的 确定 请 你 我 觉得 认为 知道 记得 意思 发生 做 想 来 去 又 就 也 都 "
    "到底 究竟 事 事情 情况 时候 呗 给 看 看看 好 过 多 "
    "what who where when how happened happens happen is was were are did do does doing go going on tell say me us "
    "about the a an of in to for with one ones really ok okay please explain details detail you i know think remember "
    "not no yes any anything something there here can could would will had has have been came come later afterwards"
)
_POINTING = frozenset(_POINTING_TEXT.split())
_KNOWN = _POINTING.union(_EMPTY_TEXT.split())
_WORD = re.compile(
    "[a-z']+|"
    + "|".join(sorted((word for word in _KNOWN if not word.isascii()), key=len, reverse=True))
    + r"|[\s，。？！、…~～,.?!;；:：\-—“”\"]+"
)


def is_follow_up(text: str) -> bool:
    """Whether a text only points at what was said before: 那后来呢？, and then?

    True for short texts of nothing but pronouns, question words and particles, at least one of which points back.
    """
    text = text.strip().lower()
    if not text or len(text) > MAX_FOLLOW_UP_CHARS:
        return False
    pointing, position = False, 0
    while position < len(text):
        match = _WORD.match(text, position)
        if match is None:
            return False
        word = match[0].removesuffix("'s")
        if "a" <= word[:1] <= "z" and word not in _KNOWN:
            return False
        pointing = pointing or word in _POINTING
        position = match.end()
    return pointing


# --- how much (2.4, 2.8) ---------------------------------------------------------------------------------------------

LENGTHS = ((100, 7), (30, 5))
"""More UTF-16 units of the user than this -> so many fragments."""
DISTINCT_TOKENS = ((100, 7), (40, 5))
"""More distinct tokens of the answer than this -> so many fragments."""
LEAST = 3

_TOKEN = re.compile(r"[A-Za-z0-9]+|[^\x00-\xff\s]")
_CJK = re.compile("[\u4e00-\u9fa5]")


def utf16_length(text: str) -> int:
    """The length in UTF-16 units, as JavaScript counts."""
    return len(text) + sum(character > "\uffff" for character in text)


def distinct_tokens(text: str) -> int:
    """Distinct runs of ASCII letters and digits, and distinct characters above U+00FF that are not white space."""
    return len(set(_TOKEN.findall(text)))


def _step(value: int, steps: Sequence[tuple[int, int]]) -> int:
    return next((k for limit, k in steps if value > limit), LEAST)


def rounded(value: float) -> int:
    """To the next whole number, halves up, as JavaScript rounds; within 0 and MAX_K."""
    return 0 if math.isnan(value) else math.floor(min(max(value, 0.0), MAX_K) + 0.5)


def dynamic_k(user: str, assistant: str, multiplier: float = 1.0) -> int:
    """How many fragments are recalled, 1 to MAX_K: more for long texts, times the declaration's number (2.4, K1-K7)."""
    k = _step(utf16_length(user), LENGTHS)
    if assistant:
        k = rounded((k + _step(distinct_tokens(assistant), DISTINCT_TOKENS)) / 2)
    return max(1, rounded(k * multiplier))


def search_depth(k: int, rerank_multiplier: float = 2.0) -> int:
    """How many candidates a reranker gets for ``k`` fragments, 1 to MAX_K (2.4)."""
    return max(1, rounded(k * rerank_multiplier))


def reference_tokens(text: str) -> int:
    """Tokens as budgets of memory estimate them: 1.5 for a character of U+4E00-9FA5, 0.25 for any other (2.8, M7)."""
    ideographs = len(_CJK.findall(text))
    return (6 * ideographs + (len(text) - ideographs) + 3) // 4
