"""What a rule of time words is, and the pieces of patterns that several rules share."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from app.memory.time_words.calendar import Found, Today
from app.memory.time_words.numerals import CHARACTERS

Match = re.Match[str]
Builder = Callable[[Match, Today], Found | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern, matched at a place where it may begin, and what its words stand for.

    The pattern has an end however long the text is: only bounded repeats. The builder gives None for words that name no
    date (2月30日); the words are used up all the same, so that no shorter rule reads a part of them.
    """

    pattern: re.Pattern[str]
    build: Builder


def rule(pattern: str, build: Builder) -> Rule:
    """A rule with its pattern compiled; patterns see small letters and simplified characters only."""
    return Rule(re.compile(pattern), build)


NUMBER = f"[{CHARACTERS}]{{1,8}}"
"""A numeral, well-formed or not."""

NOT_NUMBER_BEFORE = f"(?<![{CHARACTERS}.:/第-])"

DAY_SIGN = r"(?:号(?![线楼店机位选院门房桌库馆车柜仓文样码令召称角])|日(?!记[^录]|程|常|志|报|语|本|元|子|游|均|期))"
"""What makes a number a day of the month, and not a line of the underground or the first half of 日记."""

WEEKDAY = (
    r"(?:一(?![起直些样共同般定边整切堆个位场次种件遍天]|下(?!午))|[二三四五六](?![次个位名件种遍份篇])"
    r"|日(?![记程常志报期语本元式子用])|天(?![气天空生下上线使才真])|[1-7](?![0-9]))"
)
"""The last character of a weekday: not the 一 of 一起 and not the 日 of 日记."""

WEEKDAYS = {"一": 0, "二": 1, "三": 2, "四": 3, "五": 4, "六": 5, "日": 6, "天": 6} | {
    str(number): number - 1 for number in range(1, 8)
}

MONTH_PART = (
    r"(?:上旬|初旬|中旬|下旬|上半月|下半月|月?初(?![中恋级步学一二三四五六七八九十])"
    r"|月?中(?![国文秋午学心医东央间途止奖华])|月?[底末](?![下层]))"
)


def month_part_name(text: str) -> str:
    """The part's name for ``calendar.month_part``."""
    if "半" in text:
        return "first_half" if text.startswith("上") else "second_half"
    return {"上": "early", "初": "early", "中": "mid", "下": "late", "底": "late", "末": "late"}[text.lstrip("月")[0]]


HOURS = {
    "凌晨": (0, 6), "清晨": (5, 9), "早晨": (5, 11), "早上": (5, 12), "清早": (5, 9), "一早": (5, 9), "早": (5, 12),
    "晨": (5, 9), "上午": (6, 12), "中午": (11, 14), "正午": (11, 14), "午后": (12, 18), "下午": (12, 18),
    "傍晚": (17, 20), "黄昏": (17, 20), "晚上": (18, 24), "晚间": (18, 24), "夜里": (18, 24), "夜晚": (18, 24),
    "夜间": (18, 24), "晚": (18, 24), "夜": (18, 24), "深夜": (21, 24), "半夜": (21, 24), "午夜": (21, 24),
    "morning": (5, 12), "noon": (11, 14), "afternoon": (12, 18), "evening": (17, 24), "night": (18, 24),
}  # fmt: skip
"""Parts of the day: from and up to, in hours. What is after midnight belongs to the next day."""
