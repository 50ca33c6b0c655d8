"""``{{Date}}``, ``{{Time}}``, ``{{Today}}``, ``{{Festival}}`` (3.2 C3-C6, 3.3) in the report zone (B31, B45)."""

from __future__ import annotations

import datetime
import re

from app.extend import Clock, Piece, Trust
from app.prompt.limits import Budget
from app.prompt.pieces import NOT_DATA, PromptText
from app.protocol.prompt_texts import WEEKDAYS

DATE_WORD = re.compile(r"\{\{(Date|Time|Today|Festival)\}\}")


def festival(day: datetime.date) -> str:
    """The lunar date as 3.3 writes it: ``乙巳蛇年冬月初二 冬至``; the year changes at the lunar new year."""
    # Imported here: the tables of lunar_python take longer to load than the rest of the server's start.
    from lunar_python import Solar

    lunar = Solar.fromYmd(day.year, day.month, day.day).getLunar()
    term = lunar.getJieQi()
    text = (
        f"{lunar.getYearInGanZhi()}{lunar.getYearShengXiao()}年{lunar.getMonthInChinese()}月{lunar.getDayInChinese()}"
    )
    return f"{text} {term}" if term else text


def date_word(word: str, now: datetime.datetime) -> str:
    """The text of one of the four words; ``now`` is a time in the wanted zone."""
    match word:
        case "Date":
            return f"{now.year}/{now.month}/{now.day}"
        case "Time":
            return f"{now:%H:%M:%S}"
        case "Today":
            return WEEKDAYS[now.weekday()]
        case _:
            return festival(now.date())


class Dates:
    """Replaces the date words; all of one request see the same instant."""

    def __init__(self, zone: datetime.tzinfo, clock: Clock) -> None:
        self._now = datetime.datetime.fromtimestamp(clock(), zone)
        self._texts: dict[str, str] = {}

    def expand(self, text: PromptText, budget: Budget) -> PromptText:
        """Put in the dates that ``text`` names."""

        def resolve(match: re.Match[str]) -> tuple[Piece, ...]:
            word = match[1]
            if word not in self._texts:
                self._texts[word] = date_word(word, self._now)
            pieces = (Piece(self._texts[word], word, Trust.OPERATOR),)
            budget.spend(word, pieces)
            return pieces

        return text.replace(DATE_WORD, resolve, NOT_DATA)
