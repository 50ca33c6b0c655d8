"""Placeholders that far nodes fill (spec 3.4, 6.4; B16): texts of others, put in where no text of ours stands."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from app.extend import Found, Json, PromptContext, Trust
from app.protocol.json_text import compact_json
from app.protocol.prompt_texts import static_cut, static_unavailable
from app.protocol.tool_values import clean

log = logging.getLogger(__name__)

MAX_KEYS = 200
"""Placeholders of one node."""

MAX_ENTRIES = 2 * MAX_KEYS
"""Entries of one message that are looked at."""

MAX_ALL_KEYS = 500
MAX_ALL_CHARS = 16_000
"""Placeholders of all nodes together, and characters of their names: each prompt is searched for them, and what finds
them is made anew when they change.
"""

MAX_KEY_CHARS = 200
NODE_VALUES = 4
"""How many values of the greatest length one node may have in all."""

_KEY = re.compile(rf"\{{\{{([^{{}}\r\n]{{1,{MAX_KEY_CHARS}}})\}}\}}")
_NOTHING = re.compile(r"(?!)")


class NodePlaceholders:
    """The values of all nodes. It stands behind all sources of this server, which so keep their keys.

    Of several nodes the first that fills a key keeps it until it goes. ``max_chars`` gives the longest value of now.
    ``pattern`` is a new one when the keys are, made when a prompt is searched: nodes may change theirs at any pace.
    """

    name = "node"
    roles = frozenset({"system"})
    trust = Trust.DATA
    after_detectors = False

    def __init__(self, max_chars: Callable[[], int]) -> None:
        self._max_chars = max_chars
        self._values: dict[str, dict[str, str]] = {}
        self._owners: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = _NOTHING

    @property
    def pattern(self) -> re.Pattern[str]:
        """What finds the keys of now."""
        if self._pattern is None:
            keys = sorted(self._owners)
            first = "".join(re.escape(character) for character in sorted({key[0] for key in keys}))
            # Most of what stands between braces is none of these: one look at its first character says so.
            self._pattern = re.compile(rf"\{{\{{(?=[{first}])({'|'.join(map(re.escape, keys))})\}}\}}")
        return self._pattern

    def keys(self) -> list[tuple[str, str]]:
        """Each key of now, without braces, and the node that fills it."""
        return sorted(self._owners.items())

    def update(self, node: str, said: Mapping[str, Json]) -> int:
        """Take values of a node by placeholder, with or without braces; null takes one away. Returns how many are
        left out: no names, or beyond a limit.
        """
        values = self._values.setdefault(node, {})
        limit = self._max_chars()
        left_out = max(0, len(said) - MAX_ENTRIES)
        size = sum(map(len, values.values()))
        for written, value in islice(said.items(), MAX_ENTRIES):
            key = _key(written)
            if not key:
                left_out += 1
                continue
            before = len(values.get(key, ""))
            if value is None:
                values.pop(key, None)
                size -= before
                continue
            text = _text(value)
            text = text if len(text) <= limit else f"{text[:limit]}\n{static_cut(key, limit)}"
            if (key not in values and len(values) >= MAX_KEYS) or size - before + len(text) > NODE_VALUES * limit:
                left_out += 1
                continue
            values[key] = text
            size += len(text) - before
        self._arrange()
        return left_out

    def forget(self, node: str) -> None:
        """A node is gone, and its values with it."""
        if self._values.pop(node, None) is not None:
            self._arrange()

    async def resolve(self, found: Sequence[Found], context: PromptContext) -> Mapping[str, str]:
        """The values of now."""
        del context
        texts: dict[str, str] = {}
        for item in found:
            key = item.groups[0]
            owner = self._owners.get(key)
            if owner is not None:
                texts[item.text] = self._values[owner][key] or static_unavailable(key)
        return texts

    def _arrange(self) -> None:
        """Say anew whose key is whose: who has it keeps it, else the node that has been here longest gets it."""
        owners = {key: owner for key, owner in self._owners.items() if key in self._values.get(owner, ())}
        chars = sum(map(len, owners))
        for node, values in self._values.items():
            for key in values:
                if key not in owners and len(owners) < MAX_ALL_KEYS and chars + len(key) <= MAX_ALL_CHARS:
                    owners[key] = node
                    chars += len(key)
        if owners.keys() != self._owners.keys():
            self._pattern = None if owners else _NOTHING
        self._owners = owners


def _key(written: str) -> str:
    """What stands between the braces; empty for what is no placeholder, or one that only the server fills."""
    text = written.strip()
    match = _KEY.fullmatch(text if text.startswith("{{") else "{{" + text + "}}")
    key = match[1].strip() if match else ""
    return key if key and "::" not in key and key.isprintable() else ""


def _text(value: Json) -> str:
    try:
        value = clean(value)
        return value if isinstance(value, str) else compact_json(value)
    except (ValueError, RecursionError):
        return ""
