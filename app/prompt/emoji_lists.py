"""``{{X表情包}}``: the lists of pictures that EmojiListGenerator writes, read live (3.2 phase B, 0.2; B29)."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from app.extend import Found, PromptContext, Trust
from app.prompt.files import TextFiles
from app.prompt.scope import SYSTEM
from app.protocol.blanks import trimmed
from app.protocol.prompt_texts import EMOJI_SUFFIX, emoji_list_missing

LISTS_FOLDER = Path("Plugin") / "EmojiListGenerator" / "generated_lists"
"""Where the lists lie below the home, whichever EmojiListGenerator writes them."""

MAX_NAME = 255
"""Characters of a list's name; no file system has longer ones."""

log = logging.getLogger(__name__)


class EmojiListSource:
    """The placeholder source of emoji lists: file names joined by ``|``, as data.

    A list counts as it is on the disk at each turn, so a run of the generator, or a person's edit, is in the next chat.
    """

    name = "emoji"
    pattern = re.compile(r"\{\{([^{}\r\n]+?" + EMOJI_SUFFIX + r")\}\}")
    roles = frozenset({SYSTEM})
    trust = Trust.DATA
    after_detectors = False

    def __init__(self, lists: TextFiles) -> None:
        self._lists = lists

    async def resolve(self, found: Sequence[Found], context: PromptContext) -> Mapping[str, str]:
        """All named lists, read in one go outside of the event loop."""
        del context
        return await asyncio.to_thread(self._read, found)

    def _read(self, found: Sequence[Found]) -> dict[str, str]:
        return {item.text: self._list(item.groups[0]) or emoji_list_missing(item.groups[0]) for item in found}

    def _list(self, name: str) -> str:
        if len(name) > MAX_NAME or re.search(r"[/\\\0]", name):
            return ""
        try:
            return trimmed(self._lists.read(f"{name}.txt"))
        except FileNotFoundError:
            return ""
        except OSError as error:
            log.warning("emoji list '%s' cannot be read: %s", name, error)
            return ""
