"""The rules of the demo model: a conversation in, the text of the reply out. Pure and deterministic."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from app.demo.blocks import diary_block, quoted, tool_block
from app.demo.conversation import AnswerKind, Conversation, ToolAnswer
from app.demo.phrases import CHINESE, ENGLISH, Phrases
from app.demo.sums import MAX_SCANNED, find_sums

CALCULATOR = "SciCalculator"
DIARY_WRITER = "DailyNoteWrite"
MISSING_TOOL = "NoSuchTool"
MAID = "Demo"
"""The name under which the demo model keeps its diary."""

MAX_QUOTE = 2_000
"""Characters of a tool's answer or of a person's text that are repeated."""

_SLOW = re.compile(r"\bslow(?:ly)?\b|慢", re.IGNORECASE)
_MISSING = re.compile(r"\bmissing tool\b|不存在的工具", re.IGNORECASE)
_DIARY = re.compile(r"\bdiary block\b|写(?:一篇|篇)?日记", re.IGNORECASE)
_REMEMBER = re.compile(
    r"(?<!do you )(?<!did you )(?<!do i )\bremember\b(?:\s+that\b)?[\s:,]*|请?(?:帮我)?记住(?!了?吗)了?[\s：:，,]*",
    re.IGNORECASE,
)
_PROMPT = re.compile(r"\bshow (?:me )?(?:the |your )?prompt\b|提示词", re.IGNORECASE)
_THINK = re.compile(r"\bthink\b|思考|想一想", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class DemoCall:
    """A function that the model calls."""

    name: str
    arguments: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DemoReply:
    """A reply: ``text`` comes at the usual pace, then ``slow_lines`` one by one at the slow pace, then ``calls``."""

    text: str
    slow_lines: tuple[str, ...] = ()
    calls: tuple[DemoCall, ...] = ()


def reply_to(
    conversation: Conversation, date: str, slow_lines: int, functions: Collection[str] = frozenset()
) -> DemoReply:
    """What the demo model says; ``date`` (YYYY-MM-DD) goes into diary entries.

    Tools that are among the ``functions`` it was offered are called as such, all others in marked text.

    The first matching rule wins: tool answers, slow, missing tool, diary block, remember, show prompt, think,
    sums, anything else.
    """
    phrases = CHINESE if conversation.chinese else ENGLISH
    said: list[str] = []
    lines: tuple[str, ...] = ()
    calls: tuple[DemoCall, ...] = ()
    if conversation.answers is not None:
        body = _told(conversation, phrases)
    else:
        body, lines, calls = _by_rule(conversation, phrases, date, slow_lines)
        if conversation.pictures:
            said.append(phrases.no_picture)
    if conversation.first and body != phrases.plain:
        said.append(phrases.introduction)
    text, functions_called = "\n".join([*said, body]), tuple(call for call in calls if call.name in functions)
    marked = [tool_block(call.name, **call.arguments) for call in calls if call.name not in functions]
    return DemoReply("\n".join([text, *marked]), lines, functions_called)


def _by_rule(
    conversation: Conversation, phrases: Phrases, date: str, slow_lines: int
) -> tuple[str, tuple[str, ...], tuple[DemoCall, ...]]:
    """What is said, the slow lines, and the calls that come last."""
    text = conversation.text[:MAX_SCANNED]
    if _SLOW.search(text):
        numbers = range(1, slow_lines + 1)
        lines = tuple("\n" + phrases.slow_line.format(number=number, count=slow_lines) for number in numbers)
        return phrases.slow.format(count=slow_lines), lines, ()
    if _MISSING.search(text):
        return phrases.missing, (), (DemoCall(MISSING_TOOL, {"question": quoted(text, MAX_QUOTE)}),)
    if _DIARY.search(text):
        return f"{phrases.diary}\n{diary_block(MAID, date, _entry(phrases.diary_text))}", (), ()
    if note := _note(text):
        fields = {"maidName": MAID, "dateString": date, "contentText": _entry(note)}
        return phrases.remember, (), (DemoCall(DIARY_WRITER, fields),)
    if _PROMPT.search(text):
        prompt = quoted(conversation.prompt, MAX_QUOTE)
        return (phrases.prompt.format(text=prompt) if prompt else phrases.no_prompt), (), ()
    sums = find_sums(text)
    if _THINK.search(text):
        thought = tool_block(CALCULATOR, expression=sums[0] if sums else "1+1")
        return f"<think>\n{phrases.think_inside}\n{thought}\n</think>\n{phrases.think_after}", (), ()
    if sums:
        said = phrases.calculate if len(sums) == 1 else phrases.calculate_many.format(count=len(sums))
        return said, (), tuple(DemoCall(CALCULATOR, {"expression": written}) for written in sums)
    return phrases.plain, (), ()


def _note(text: str) -> str:
    """What the person wants remembered, or nothing."""
    found = _REMEMBER.search(text)
    return quoted(text[found.end() :].strip(), MAX_QUOTE) if found else ""


def _entry(text: str) -> str:
    """A diary text with its tag line, so that nobody has to ask a tagging model (spec memory.md 1.4)."""
    return f"{text}\nTag: demo"


def _told(conversation: Conversation, phrases: Phrases) -> str:
    """The tool answers in the demo's words; it never calls again for the same request."""
    lines = [_quote(answer, phrases) for answer in conversation.answers or ()]
    if conversation.pictures:
        lines.append(phrases.no_picture_in_answer)
    return "\n".join(lines) or phrases.nothing.format(who=phrases.other_tool.format(tool="?"))


def _quote(answer: ToolAnswer, phrases: Phrases) -> str:
    if answer.kind is AnswerKind.UNKNOWN_TOOL:
        return phrases.unknown_tool.format(tool=quoted(answer.tool, MAX_QUOTE))
    known = {CALCULATOR: phrases.calculator, DIARY_WRITER: phrases.notebook}
    who = known.get(answer.tool) or phrases.other_tool.format(tool=quoted(answer.tool, MAX_QUOTE))
    if answer.kind is AnswerKind.NOTHING:
        return phrases.nothing.format(who=who)
    template = phrases.failed if answer.kind is AnswerKind.ERROR else phrases.answered
    return template.format(who=who, text=quoted(answer.text, MAX_QUOTE))
