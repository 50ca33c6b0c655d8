"""``tool_groups.json``: groups of tools as the operator writes them (D73, P89)."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from app.config.json_file import JsonFileError, parsed_object
from app.config.live_file import Content, LiveFile
from app.config.problem import Problem
from app.errors import both
from app.extend import Json
from app.protocol.group_names import MAX_GROUP_NAME, name_fault

log = logging.getLogger(__name__)

FILE_NAME = "tool_groups.json"
MAX_FILE_BYTES = 256 * 1024
MAX_GROUPS = 1_000
MAX_DESCRIPTION_CHARS = 2_000
MAX_PATTERNS = 2_000
"""In one file; each is compared with each tool when the tools are others."""

MAX_PATTERN_CHARS = 400
MAX_PROBLEMS = 100
"""Most complaints about one file."""

_KNOWN = ("description", "tools")


class GroupFileError(JsonFileError):
    """The file cannot be used at all; ``line`` says where, if it is known."""

    code = "tool_groups_file"


@dataclass(frozen=True, slots=True)
class DeclaredGroup:
    """A group as the file has it: what it is for, and patterns of its tools.

    Without ``tools`` it only describes a group that plugins or a server of the same name make.
    """

    name: str
    description: str
    tools: tuple[str, ...] = ()


GroupTable = tuple[DeclaredGroup, ...]
"""All groups of the file, in its order; equal tables are the same object while the file is."""


def read_groups(data: bytes, file: str = FILE_NAME) -> tuple[GroupTable, tuple[Problem, ...]]:
    """The groups of a file's content, and what is odd in it; GroupFileError when it is of no use.

    A bad group loses only itself, a bad field only the field (D73).
    """
    return _Reader(data, file).read()


class _Reader:
    def __init__(self, data: bytes, file: str) -> None:
        self._data = data
        self._file = file
        self._problems: list[Problem] = []
        self._lines: list[str] = []
        self._patterns_left = MAX_PATTERNS

    def read(self) -> tuple[GroupTable, tuple[Problem, ...]]:
        value, self._problems = parsed_object(self._data, self._file, GroupFileError)
        self._lines = self._data.decode("utf-8").split("\n")
        for key in value:
            if key not in ("groups", "$schema") and not key.startswith(("//", "#")):
                self._complain(key, "未知的键，已忽略", "is not known and ignored")
        groups = value.get("groups")
        if groups is None:
            raise GroupFileError(both("缺少对象 groups", "has no object groups"))
        if not isinstance(groups, dict):
            raise GroupFileError(both("groups 应是 JSON 对象", "groups must be a JSON object"))
        if len(groups) > MAX_GROUPS:
            self._complain(
                "groups", f"超过 {MAX_GROUPS} 组，其余已忽略", f"has more than {MAX_GROUPS}; the rest is ignored"
            )
        table = tuple(self._groups(dict(list(groups.items())[:MAX_GROUPS])))
        return table, tuple(self._problems)

    def _complain(self, key: str, chinese: str, english: str) -> None:
        if len(self._problems) < MAX_PROBLEMS:
            written = json.dumps(key, ensure_ascii=False)
            line = next((number for number, text in enumerate(self._lines, 1) if written in text), None)
            self._problems.append(Problem(self._file, line, shown(key), both(chinese, english)))

    def _groups(self, groups: Mapping[str, Json]) -> Iterator[DeclaredGroup]:
        for name, entry in groups.items():
            if fault := name_fault(name):
                self._complain(name, f"{fault.value[0]}，已忽略", f"{fault.value[1]}; the group is ignored")
                continue
            if not isinstance(entry, dict):
                self._complain(name, "应是对象，已忽略", "must be an object; the group is ignored")
                continue
            for key in entry:
                if key not in _KNOWN and not key.startswith(("//", "#")):
                    self._complain(key, f"组 {name} 中未知的键，已忽略", f"is not known in group {name} and ignored")
            yield DeclaredGroup(name, self._description(name, entry), tuple(self._patterns(name, entry)))

    def _description(self, name: str, entry: Mapping[str, Json]) -> str:
        given = entry.get("description")
        if given is not None and not isinstance(given, str):
            self._complain(name, "description 应是文本，已忽略", "has a description that is no text; ignored")
        text = given.strip() if isinstance(given, str) else ""
        if len(text) > MAX_DESCRIPTION_CHARS:
            self._complain(
                name,
                f"description 超过 {MAX_DESCRIPTION_CHARS} 字，已截断",
                f"has a description of more than {MAX_DESCRIPTION_CHARS} characters, which is cut",
            )
        return text[:MAX_DESCRIPTION_CHARS]

    def _patterns(self, name: str, entry: Mapping[str, Json]) -> Iterator[str]:
        given = entry.get("tools")
        if given is None:
            return
        listed = [given] if isinstance(given, str) else given
        if not isinstance(listed, list):
            self._complain(name, "tools 应是名称的列表，已忽略", "has tools that are no list of names; ignored")
            return
        if len(listed) > self._patterns_left:
            self._complain(
                name,
                f"全部 tools 超过 {MAX_PATTERNS} 项，其余已忽略",
                f"brings the tools of all groups above {MAX_PATTERNS}; the rest is ignored",
            )
        listed = listed[: self._patterns_left]
        self._patterns_left -= len(listed)
        for pattern in listed:
            if isinstance(pattern, str) and 0 < len(pattern.strip()) <= MAX_PATTERN_CHARS:
                yield pattern.strip()
            else:
                told = shown(json.dumps(pattern, ensure_ascii=False))
                self._complain(name, f"tools 中的 {told} 不是名称，已忽略", f"has {told} among its tools; ignored")


def shown(text: str) -> str:
    """A text from outside for one line of a log."""
    cut = text if len(text) <= MAX_GROUP_NAME else text[:MAX_GROUP_NAME] + "…"
    return "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode("ascii") for mark in cut)


class GroupFile:
    """The groups of now. The file may be edited, replaced or removed while the server runs.

    A broken file leaves the last good one in force (P89, P93); without a file there are no groups of it. ``clock``
    gives seconds of a steady clock. A look is one ``stat`` a second, so it may be asked from the event loop.
    """

    def __init__(self, home: Path, clock: Callable[[], float]) -> None:
        self._file = LiveFile(home / FILE_NAME, MAX_FILE_BYTES, clock)
        self._table: GroupTable = ()

    def table(self) -> GroupTable:
        """What the file says now, or said when it could last be read."""
        content = self._file.changed()
        if content is not None:
            self._take(content)
        return self._table

    def _take(self, content: Content) -> None:
        path = str(self._file.path)
        if content.error:
            log.error("%s; the groups stay as they were", Problem(path, None, "", content.error))
            return
        if content.data is None:
            if self._table:
                log.info("%s is gone, and its groups with it", path)
            self._table = ()
            return
        try:
            table, problems = read_groups(content.data, path)
        except GroupFileError as error:
            log.error("%s; the groups stay as they were", Problem(path, error.line, "", error.message))
            return
        for problem in problems:
            log.warning("%s", problem)
        if table != self._table:
            self._table = table
