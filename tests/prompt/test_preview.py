"""Previews of prompts: pieces with their sources, placeholders that are left, nothing that has an effect."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence

from app.extend import Found, PromptContext, Trust
from app.prompt.engine import PromptEngine
from app.prompt.preview import MAX_PIECES, MAX_SHOWN_CHARS, LookedFor, Mark, Preview, previewed
from app.prompt.settings import PromptSettings
from tests.prompt.installation import Home


class Costly:
    """A source that must not be asked."""

    name = "costly"
    pattern = re.compile(r"\[\[(.+?)\]\]|\{\{(Costly)\}\}")
    roles = frozenset({"system"})
    trust = Trust.DATA
    after_detectors = False

    async def resolve(self, found: Sequence[Found], context: PromptContext) -> Mapping[str, str]:
        raise AssertionError("it was asked")


def preview(home: Home, text: str, role: str = "system", **variables: str) -> Preview:
    settings = PromptSettings(variables=tuple(variables.items()))
    unasked = [LookedFor(Costly())]
    engine = PromptEngine(settings, home.book, home.files, dict, unasked)
    return asyncio.run(previewed(engine, unasked, text, role=role, model="m"))


def test_costly_sources_are_looked_for_and_not_asked(home: Home) -> None:
    home.agents(Nova="see [[x]] and {{VarA}}")
    found = preview(home, "{{Nova}} [[x]] {{Costly}} {{Unknown}} <<VarNo>>", VarA="a")
    assert [(piece.text, piece.source, piece.mark) for piece in found.pieces] == [
        ("see ", "agent:Nova", Mark.TEXT),
        ("[[x]]", "costly", Mark.LATER),
        (" and ", "agent:Nova", Mark.TEXT),
        ("a", "VarA", Mark.TEXT),
        (" ", "message", Mark.TEXT),
        ("[[x]]", "costly", Mark.LATER),
        (" ", "message", Mark.TEXT),
        ("{{Costly}}", "costly", Mark.LATER),
        (" ", "message", Mark.TEXT),
        ("{{Unknown}}", "", Mark.UNKNOWN),
        (" ", "message", Mark.TEXT),
        ("<<VarNo>>", "", Mark.UNKNOWN),
    ]
    assert (found.later, found.unknown) == (("[[x]]", "{{Costly}}"), ("{{Unknown}}", "<<VarNo>>"))
    assert found.sources == ("agent:Nova", "VarA", "message")


def test_words_of_steps_are_filled_later_and_not_unknown(home: Home) -> None:
    found = preview(home, "{{VCPTavern::oc}}{{Workspace::docs/a.md}}{{VCPTavern::}}")
    assert [(piece.source, piece.mark) for piece in found.pieces] == [
        ("VCPTavern", Mark.LATER),
        ("Workspace", Mark.LATER),
        ("", Mark.UNKNOWN),
    ]


def test_a_users_text_is_not_judged(home: Home) -> None:
    """D7: in user messages most placeholders are ordinary text."""
    assert preview(home, "{{Unknown}} [[x]]", role="user").unknown == ()


def test_long_results_are_cut_and_counted_whole(home: Home) -> None:
    long = preview(home, "字" * (MAX_SHOWN_CHARS + 10))
    assert (long.cut, long.tokens, sum(len(piece.text) for piece in long.pieces)) == (
        True,
        MAX_SHOWN_CHARS + 10,
        MAX_SHOWN_CHARS,
    )
    many = preview(home, "{{VarA}} " * MAX_PIECES, VarA="a")
    assert (many.cut, len(many.pieces)) == (True, MAX_PIECES)
    assert preview(home, "").pieces == ()
