"""What a model answered to AIMemo, made into remembered blocks (memory.md 5.6). Pure and linear."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence

from app.protocol.recall_frames import AI_MEMO_EMPTY, AI_MEMO_LEAD, AI_MEMO_NOTHING

NEGATIVE = (AI_MEMO_NOTHING, AI_MEMO_EMPTY)

MAX_REPLY_CHARS = 400_000
MAX_BLOCKS = 200
MIN_LINES = 10
"""Shorter replies are not looked through for repetitions."""

_BLANKS = re.compile(r"\s+")


def blocks_of(reply: str, corpus: str) -> tuple[str, ...]:
    """The remembered blocks of one reply without their brackets; empty for "nothing found".

    Quotes in JSON, as our prompt asks for, count where they stand in the corpus, blanks aside; what a model made up is
    left out, and of a reply that was cut off what is whole counts. Other replies follow the contract of the reference:
    blocks in double brackets, else the whole reply.
    """
    reply = without_repeated_tail(reply[:MAX_REPLY_CHARS]).strip()
    quotes = _quotes(reply)
    if quotes is not None:
        known = _BLANKS.sub("", corpus)
        return tuple(
            f"{quote}（{file}）" if file else quote for file, quote in quotes if _BLANKS.sub("", quote) in known
        )[:MAX_BLOCKS]
    if not reply or reply in NEGATIVE:
        return ()
    blocks = [block for block in _in_brackets(reply) if block and f"[[{block}]]" not in NEGATIVE]
    if blocks or any(negative in reply for negative in NEGATIVE):
        return tuple(blocks[:MAX_BLOCKS])
    return (reply.removeprefix(AI_MEMO_LEAD).lstrip(":： \n"),)


def merged(replies: Iterable[Sequence[str]], *, empty_corpus: bool = False) -> str:
    """One answer of the blocks of all batches, each block once (5.6)."""
    blocks = dict.fromkeys(block for reply in replies for block in reply)
    if not blocks:
        return AI_MEMO_EMPTY if empty_corpus else AI_MEMO_NOTHING
    return "\n".join((AI_MEMO_LEAD, *(f"[[{block}]]" for block in blocks)))


def without_repeated_tail(text: str) -> str:
    """The text without the end that says again and again what was said: models that have lost their way (5.6).

    Of at least ten lines that are not empty, if the last u repeat the u before them (the smallest u from 2 on), what
    follows the first run is cut.
    """
    lines = text.split("\n")
    places = [index for index, line in enumerate(lines) if line.strip()]
    told = [lines[index].strip() for index in places]
    if len(told) < MIN_LINES:
        return text
    unit = _repeated_unit(told)
    if not unit:
        return text
    begin = len(told) - unit
    while begin >= unit and told[begin - unit : begin] == told[begin : begin + unit]:
        begin -= unit
    return "\n".join(lines[: places[begin + unit - 1] + 1])


def _repeated_unit(lines: Sequence[str]) -> int:
    """The smallest u from 2 on whose last u lines repeat the u before them; 0 for none. Linear in the lines."""
    backwards = lines[::-1]
    # z[u]: how many lines from the end are the same as those u lines earlier (the Z function of the reversed lines)
    z = [0] * len(backwards)
    left = right = 0
    for index in range(1, len(backwards)):
        if index < right:
            z[index] = min(right - index, z[index - left])
        while index + z[index] < len(backwards) and backwards[z[index]] == backwards[index + z[index]]:
            z[index] += 1
        if index + z[index] > right:
            left, right = index, index + z[index]
        if index >= 2 and z[index] >= index:
            return index
    return 0


def _in_brackets(text: str) -> Iterator[str]:
    """What stands between ``[[`` and the next ``]]``, from left to right."""
    begin = text.find("[[")
    while begin >= 0 and (end := text.find("]]", begin + 2)) >= 0:
        yield text[begin + 2 : end].strip()
        begin = text.find("[[", end + 2)


def _quotes(reply: str) -> list[tuple[str, str]] | None:
    """The (file, quote) pairs of a reply in JSON; None where it is none."""
    begin, end = reply.find("{"), reply.rfind("}")  # a fence or a word may stand around it
    if begin < 0 or "[[" in reply[:begin]:
        return None
    try:
        value = json.loads(reply[begin : end + 1])
    except (ValueError, RecursionError):
        memories: object = list(_whole_objects(reply, begin)) if '"memories"' in reply else None
    else:
        memories = value.get("memories") if isinstance(value, dict) else None
    if not isinstance(memories, list):
        return None
    pairs = [(item.get("file"), item.get("quote")) for item in memories if isinstance(item, dict)]
    return [
        (file.strip() if isinstance(file, str) else "", quote.strip())
        for file, quote in pairs
        if isinstance(quote, str) and quote.strip()
    ]


def _whole_objects(reply: str, begin: int) -> Iterator[object]:
    """The objects of a list that was cut off, as by the limit of an answer: those that are whole."""
    decoder = json.JSONDecoder()
    place = reply.find("{", reply.find("[", begin) + 1)
    while place >= 0:
        try:
            value, end = decoder.raw_decode(reply, place)
        except (ValueError, RecursionError):
            return
        yield value
        place = reply.find("{", end)
