"""The tool with which a model looks at semantic groups and changes them (memory.md 5.1: SemanticGroupEditor)."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from pathlib import Path

from app.errors import BadRequestError, both
from app.memory.enhance.editing import Document, groups, save_groups

QUERY = "QueryGroups"
UPDATE = "UpdateGroups"

UPDATES_LIMIT = 100
WORDS_LIMIT = 500
NAME_CHARS = 100
WORD_CHARS = 100

_SEPARATORS = re.compile(r"[,，、\r\n]+")
_NUMBERED = re.compile(r"groupname(\d{0,4})")


class GroupEditor:
    """Reads and changes the groups of one home; changes come one after the other. Methods block."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._lock = threading.Lock()

    def call(self, arguments: Mapping[str, object]) -> str:
        """The answer to a call: ``command`` is QueryGroups or UpdateGroups. Raises BadRequestError, OSError."""
        command = str(arguments.get("command") or "").strip().lower()
        if command == QUERY.lower():
            return _listed(self._groups())
        if command == UPDATE.lower():
            with self._lock:
                return self._update(arguments)
        raise BadRequestError(both(f"command 应为 {QUERY} 或 {UPDATE}", f"command is {QUERY} or {UPDATE}"))

    def _groups(self) -> Document:
        try:
            return groups(self._home)
        except ValueError as fault:
            raise BadRequestError(
                both(f"语义组文件有误，请先修正：{fault}", f"the file of groups is faulty, mend it first: {fault}")
            ) from None

    def _update(self, arguments: Mapping[str, object]) -> str:
        wanted = _updates(arguments)
        document = self._groups()
        listed = document.get("groups")
        known = dict(listed) if isinstance(listed, dict) else {}
        created: list[str] = []
        replaced: list[str] = []
        for name, words in wanted.items():
            entry = known.get(name)
            (replaced if name in known else created).append(name)
            known[name] = (
                {**entry, "words": words}
                if isinstance(entry, dict)
                else {"words": words, "auto_learned": [], "weight": 1.0}
            )
        save_groups(self._home, {"config": {}, **document, "groups": known})
        lines = [both("语义组已更新，立即生效", "the groups are changed and in force")]
        lines += [f"- {both('替换', 'replaced')}: {name}" for name in replaced]
        lines += [f"- {both('新建', 'created')}: {name}" for name in created]
        return "\n".join(lines)


def _updates(arguments: Mapping[str, object]) -> dict[str, list[str]]:
    """Words by group, of ``groupname`` and ``groupwords`` and their numbered forms; raises BadRequestError."""
    found: dict[str, list[str]] = {}
    for key in sorted(arguments, key=lambda key: (len(key), key.lower())):
        match = _NUMBERED.fullmatch(key.lower())
        if match is None:
            continue
        name = str(arguments[key] or "").strip()
        words = _words(
            next((arguments[other] for other in arguments if other.lower() == f"groupwords{match[1]}"), None)
        )
        if not name or len(name) > NAME_CHARS or not words:
            raise BadRequestError(
                both(
                    f"{key} 需要一个不超过 {NAME_CHARS} 字的名称和至少一个词（groupwords{match[1]}）",
                    f"{key} needs a name of at most {NAME_CHARS} characters and a word or more (groupwords{match[1]})",
                )
            )
        found[name] = words
    if not found or len(found) > UPDATES_LIMIT:
        raise BadRequestError(
            both(
                f"需要 groupname 和 groupwords，或 groupname1、groupwords1…（最多 {UPDATES_LIMIT} 组）",
                f"groupname and groupwords are needed, or groupname1, groupwords1 … (at most {UPDATES_LIMIT})",
            )
        )
    return found


def _words(value: object) -> list[str]:
    parts = value if isinstance(value, list) else _SEPARATORS.split(str(value or ""))
    words = (part.strip()[:WORD_CHARS] for part in parts if isinstance(part, str))
    return list(dict.fromkeys(word for word in words if word))[:WORDS_LIMIT]


def _listed(document: Document) -> str:
    listed = document.get("groups")
    known = listed if isinstance(listed, dict) else {}
    if not known:
        return both("还没有语义组", "there are no semantic groups")
    lines = [both(f"共有 {len(known)} 个语义组", f"{len(known)} semantic groups")]
    for name, entry in known.items():
        fields = entry if isinstance(entry, dict) else {"words": entry}
        lines.append(f"- {name}: {', '.join(_words(fields.get('words')))}")
        learned = _words(fields.get("auto_learned"))
        if learned:
            lines.append(f"  {both('学到的词', 'learned')}: {', '.join(learned)}")
    return "\n".join(lines)
