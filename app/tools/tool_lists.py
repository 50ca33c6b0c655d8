"""Lists of tools that people put together: stored choices, and the text made of one for a variable (8.2).

A choice is ``ToolConfigs/<name>.json`` with ``selectedTools`` (names) and ``toolDescriptions`` (name to text). A tool's
name is its command's identifier, else its plugin's; where several plugins have a command of that name it also goes by
``Plugin::command``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from app.config.durable import remove_atomic
from app.config.edit_lock import edit_lock
from app.config.edited_file import EditedFile, read_edited, write_edited
from app.errors import BadRequestError, NotFoundError, both
from app.extend import GROUPS, Json, ToolSpec
from app.protocol.json_text import pretty_json, strict_json

CONFIGS_FOLDER = "ToolConfigs"
TEXTS_FOLDER = "TVStxt"
FILE_LIMIT = 4 * 1024 * 1024
MAX_LISTED = 2_000

HEADER = "以下是当前可用的工具列表，请按各工具的说明和调用示例使用："
_SAFE = re.compile(r'(?![ .])[^/\\%<>:"|?*\x00-\x1f\x7f]{1,100}(?<![ .])')
"""Names that every file system takes."""

_NUMBERED = "{number}. {display} ({plugin})"


@dataclass(frozen=True, slots=True)
class ListedTool:
    """One command of a tool, or a tool that has none."""

    name: str
    plugin: str
    display: str
    description: str
    example: str

    @property
    def names(self) -> tuple[str, str, str]:
        """What it is called in stored choices; the reference calls a command without an identifier by its plugin."""
        return self.full_name, self.name, self.plugin

    @property
    def full_name(self) -> str:
        """A name that no other plugin's command has."""
        return f"{self.plugin}::{self.name}"


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """What a list is made of: names of tools, and texts in place of their own descriptions."""

    selected: frozenset[str]
    descriptions: Mapping[str, str]

    def chosen(self, tools: Iterable[ListedTool]) -> list[ListedTool]:
        """The tools that are selected, by plugin and in the order of its commands."""
        wanted = [tool for tool in tools if not self.selected.isdisjoint(tool.names)]
        return sorted(wanted, key=lambda tool: tool.plugin)

    def description(self, tool: ListedTool) -> str:
        """What the list says of a tool."""
        return next((self.descriptions[name] for name in tool.names if name in self.descriptions), tool.description)


def listed_tools(specs: Mapping[str, ToolSpec]) -> list[ListedTool]:
    """Every command that can be described, by plugin; tools that only show others are left out."""
    return [
        ListedTool(command.id or command.command or spec.name, name, spec.display, command.description, command.example)
        for name, spec in sorted(specs.items())
        if spec.origin != GROUPS
        for command in spec.commands
    ]


def read_choice(body: Mapping[str, Json]) -> ToolChoice:
    """The choice in a request or a stored object; raises BadRequestError."""
    selected, descriptions = body.get("selectedTools"), body.get("toolDescriptions", {})
    if not isinstance(selected, list) or not isinstance(descriptions, dict):
        raise BadRequestError(
            both(
                "selectedTools 应为列表，toolDescriptions 应为对象",
                "Invalid request body: selectedTools is a list, toolDescriptions an object",
            )
        )
    return ToolChoice(
        frozenset(name for name in selected if isinstance(name, str)),
        {name: text for name, text in descriptions.items() if isinstance(text, str)},
    )


def tool_list(
    tools: Iterable[ListedTool], choice: ToolChoice, *, with_header: bool = True, with_examples: bool = True
) -> str:
    """The text of a list, with CRLF: plugins by name and numbered, the commands of one that has several as ``1.1``."""
    plugins: dict[str, list[ListedTool]] = {}
    for tool in choice.chosen(tools):
        plugins.setdefault(tool.plugin, []).append(tool)
    lines = [HEADER, ""] if with_header else []
    for number, (plugin, commands) in enumerate(plugins.items(), 1):
        lines.append(_NUMBERED.format(number=number, display=commands[0].display, plugin=plugin))
        if len(commands) == 1:
            lines += _described(commands[0], choice, "", with_examples)
        else:
            for place, command in enumerate(commands, 1):
                lines.append(f"{number}.{place} {command.name}")
                lines += _described(command, choice, "  ", with_examples)
        lines.append("")
    return "\r\n".join(lines)


class ToolLists:
    """The stored choices and exported texts of a home; all methods block and raise OSError."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._configs = home / CONFIGS_FOLDER

    def names(self) -> list[str]:
        """All stored choices by name."""
        try:
            found = [path.stem for path in self._configs.iterdir() if path.suffix == ".json" and path.is_file()]
        except FileNotFoundError:
            return []
        return sorted(name for name in found if _SAFE.fullmatch(name))[:MAX_LISTED]

    def read(self, name: str) -> tuple[Mapping[str, Json], str]:
        """A stored object and its version; raises NotFoundError, BadRequestError, FileTooLargeError."""
        try:
            file = read_edited(self._config(name), FILE_LIMIT)
        except FileNotFoundError:
            raise _missing(name) from None
        try:
            value = strict_json(file.text.removeprefix("\ufeff"))
            if not isinstance(value, dict):
                raise ValueError("not a JSON object")
        except (ValueError, RecursionError) as error:
            raise BadRequestError(f"{both(f'{name} 不是可用的 JSON', f'{name} is no usable JSON')}: {error}") from None
        return value, file.fingerprint

    def write(self, name: str, value: Mapping[str, Json], expected: str | None) -> str:
        """Store an object and return its version; raises BadRequestError and as ``write_edited``."""
        path = self._config(name)
        self._configs.mkdir(parents=True, exist_ok=True)
        return write_edited(path, pretty_json(value) + "\n", expected, edit_lock(self._home))

    def delete(self, name: str) -> None:
        """Remove a stored choice; NotFoundError when there is none."""
        path = self._config(name)
        if not path.is_file():
            raise _missing(name)
        remove_atomic(path)

    def has_text(self, name: str) -> bool:
        """Whether ``TVStxt/<name>.txt`` is there."""
        return self._text(name).is_file()

    def text(self, name: str) -> EditedFile | None:
        """That file as it is; None without one. Raises FileTooLargeError."""
        try:
            return read_edited(self._text(name), FILE_LIMIT)
        except FileNotFoundError:
            return None

    def export(self, name: str, text: str, expected: str | None) -> str:
        """Write ``TVStxt/<name>.txt`` and return its path below the home; raises as ``write_edited``."""
        path = self._text(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_edited(path, text, expected, edit_lock(self._home))
        return f"{TEXTS_FOLDER}/{path.name}"

    def _config(self, name: str) -> Path:
        return _file_of(self._configs, name, ".json")

    def _text(self, name: str) -> Path:
        return _file_of(self._home / TEXTS_FOLDER, name.removesuffix(".txt"), ".txt")


def _file_of(folder: Path, name: str, suffix: str) -> Path:
    """The file of this name; links are refused, since they may lead out of the folder (B3)."""
    path = folder / f"{name}{suffix}"
    if not _SAFE.fullmatch(name) or len(path.name.encode("utf-8", "replace")) > 255 or path.is_symlink():
        raise BadRequestError(
            both(
                '名称最多 100 个字符，不能含 / \\ % < > : " | ? *，不能以空格或点开头、结尾',
                'a name has at most 100 characters, none of / \\ % < > : " | ? *, and no blank or dot at its ends',
            )
        )
    return path


def _described(tool: ListedTool, choice: ToolChoice, indent: str, with_examples: bool) -> list[str]:
    texts = [choice.description(tool)]
    if with_examples and tool.example:
        texts += ["调用示例:", tool.example]
    return [f"{indent}{line}".rstrip() for text in texts for line in text.replace("\r", "").split("\n")]


def _missing(name: str) -> NotFoundError:
    return NotFoundError(both(f"没有配置 {name[:100]}", f"there is no configuration {name[:100]}"))
