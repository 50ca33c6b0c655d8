"""Numbers as people write them: Chinese numerals up to 9999, digits, English words."""

from __future__ import annotations

import re

DIGITS = {
    "零": 0, "〇": 0, "一": 1, "二": 2, "两": 2, "俩": 2, "三": 3, "仨": 3,
    "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9,
}  # fmt: skip
UNITS = {"十": 10, "百": 100, "千": 1000}
SHORT_TENS = {"廿": 20, "卅": 30}

CHARACTERS = "0-9零〇一二两俩三仨四五六七八九十百千廿卅"
"""For the inside of a character class."""

MAX_CHARACTERS = 12
"""Longest numeral; 九千九百九十九 has seven characters."""

_NUMBER = re.compile(r"[0-9]+")

_ONES_TEXT = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_TENS_TEXT = "twenty thirty forty fifty sixty seventy eighty ninety"

CHARACTERS = "0-9零〇一二两俩三仨四五六七八九十百千廿卅"
"""For the inside of a character class."""

MAX_CHARACTERS = 12
"""Longest numeral; 九千九百九十九 has seven characters."""

_NUMBER = re.compile(r"[0-9]+")

_ONES_TEXT = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_TENS_TEXT = "twenty thirty forty fifty sixty seventy eighty ninety"
WORDS = {word: number for number, word in enumerate(_ONES_TEXT.split())} | {
    word: number for number, word in zip(range(20, 100, 10), _TENS_TEXT.split(), strict=True)
}
WORDS |= {"a": 1, "an": 1}

_ORDINALS_TEXT = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth "
    "sixteenth seventeenth eighteenth nineteenth twentieth"
)
ORDINALS = {word: number for number, word in enumerate(_ORDINALS_TEXT.split(), 1)}

ENGLISH_NUMBER = (
    r"(?:[0-9]{1,4}|(?:twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)"
    r"(?:[- ](?:one|two|three|four|five|six|seven|eight|nine))?|" + "|".join(sorted(WORDS, key=len, reverse=True)) + ")"
)


def number(text: str) -> int | None:
    """The value of a Chinese numeral or of ASCII digits, up to 9999; None when it is no well-formed number.

    A row of digits without units is read digit by digit (二〇二五).
    """
    if not text or len(text) > MAX_CHARACTERS:
        return None
    if _NUMBER.fullmatch(text):
        value = int(text)
        return value if value <= 9999 else None
    if all(character in DIGITS for character in text):
        value = int("".join(str(DIGITS[character]) for character in text))
        return value if value <= 9999 else None
    return _with_units(text)


def _with_units(text: str) -> int | None:
    total, digit, above = 0, None, 10_000
    for place, character in enumerate(text):
        if (unit := UNITS.get(character)) is not None:
            if unit >= above or digit == 0:
                return None
            if digit is None and not (unit == 10 and (place == 0 or text[place - 1] in "零〇")):
                return None
            total += (1 if digit is None else digit) * unit
            digit, above = None, unit
        elif (tens := SHORT_TENS.get(character)) is not None:
            if digit is not None or above <= 10:
                return None
            total += tens
            above = 10
        elif (value := DIGITS.get(character)) is not None:
            if digit:
                return None
            digit = value or None
        else:
            return None
    if digit is not None:
        # 一百二 is 120, 一百零二 is 102.
        short = above in (100, 1000) and len(text) > 1 and text[-2] in UNITS
        total += digit * (above // 10) if short else digit
    return total or None


def count(text: str) -> tuple[int, int] | None:
    """The least and the most that a number of things says: 三 is (3, 3), 两三 is (2, 3), 三五 is (3, 5), 十几 (11, 19).

    Understands 多, 来 and 几 behind tens (二十多) and 多 behind any number (三年多 is for the caller).
    """
    if text in ("几", "数", "好几"):
        return 3, 9
    if text[-1:] in ("几", "多", "来") and text[:-1]:
        least = number(text[:-1])
        if least is None or least == 0:
            return None
        step = 10 if least % 10 == 0 else 1
        return (max(1, least - 2), least + 2) if text[-1] == "来" else (least, least + step - (step > 1))
    if text == "几十":
        return 20, 99
    if len(text) == 2 and all(DIGITS.get(character, 0) for character in text):
        low, high = DIGITS[text[0]], DIGITS[text[1]]
        if high - low == 1 or (low, high) == (3, 5):
            return low, high
    value = number(text)
    return None if value is None else (value, value)


def english_number(text: str) -> int | None:
    """The value of digits or of an English number word up to ninety-nine; a and an are 1."""
    text = text.strip()
    if _NUMBER.fullmatch(text):
        return number(text)
    if text in WORDS:
        return WORDS[text]
    tens, _, ones = text.replace("-", " ").partition(" ")
    return WORDS[tens] + WORDS[ones] if tens in WORDS and ones in WORDS else None
