"""The language and the look that a person has chosen, or that the browser asks for."""

from __future__ import annotations

import re

from starlette.requests import Request

LANGUAGE_COOKIE = "vcp_language"
THEME_COOKIE = "vcp_theme"
LANGUAGES = ("zh", "en")
THEMES = ("auto", "light", "dark")

_MAX_HEADER = 500
_HAN = re.compile("[\u4e00-\u9fff]")


def language_of(request: Request) -> str:
    """``zh`` or ``en``: what was chosen, else the first of both that the browser names, else Chinese."""
    chosen = request.cookies.get(LANGUAGE_COOKIE, "")
    if chosen in LANGUAGES:
        return chosen
    weighed = []
    for place, part in enumerate(request.headers.get("accept-language", "")[:_MAX_HEADER].split(",")):
        name, _, weight = part.strip().lower().partition(";q=")
        found = name.partition("-")[0]
        if found in LANGUAGES and _weight(weight) > 0:
            weighed.append((-_weight(weight), place, found))
    return min(weighed)[2] if weighed else LANGUAGES[0]


def in_language(message: str, language: str) -> str:
    """The half of a message (``both``) in ``zh`` or ``en``; all of it where something that belongs to both might go."""
    chinese, mark, english = message.partition(" / ")
    if not mark or " / " in english or not _HAN.search(chinese) or _HAN.search(english):
        return message
    half, other = (chinese, english) if language == "zh" else (english, chinese)
    return message if ": " in other else half  # a reason, or a place, stands in one half and was meant for both


def _weight(text: str) -> float:
    try:
        return float(text or 1)
    except ValueError:
        return 0.0


def theme_of(request: Request) -> str:
    """``auto``, ``light`` or ``dark``."""
    chosen = request.cookies.get(THEME_COOKIE, "")
    return chosen if chosen in THEMES else THEMES[0]
