"""All placeholders of one moment, each with where it comes from, for those who write prompts (3.2, 3.11)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

from app.config.families import Families
from app.extend import GROUPS, ToolSpec
from app.prompt.emoji_lists import LISTS_FOLDER
from app.protocol.prompt_texts import DIARY_SUFFIX, SHOW_BASE64
from app.tools.descriptions import describe

T = TypeVar("T")

MAX_OF_A_KIND = 2_000
MAX_DETAIL_CHARS = 120

_PRESET_FOLDERS = (Path("Plugin", "VCPTavern", "presets"), Path(".vcp", "plugins", "VCPTavern", "presets"))


@dataclass(frozen=True, slots=True)
class PlaceholderLine:
    """One placeholder as it is written, and what it stands for in both languages; ``kind`` is a word for programs."""

    text: str
    kind: str
    chinese: str
    english: str


def agent_lines(aliases: Mapping[str, str]) -> Iterator[PlaceholderLine]:
    """Agents of the map."""
    for alias, path in _first(aliases.items()):
        yield PlaceholderLine("{{" + alias + "}}", "agent", f"Agent 文件 {path}", f"agent, Agent/{path}")


def variable_lines(families: Families) -> Iterator[PlaceholderLine]:
    """``Tar``, ``Var`` and ``SarPrompt`` of ``config.env``; values are shown by their beginnings."""
    for name, value in _first(families.variables):
        shown = _short(value)
        yield PlaceholderLine("{{" + name + "}}", "variable", f"变量：{shown}", f"variable: {shown}")
    for rule in _first(families.sar):
        models = ", ".join(rule.models)[:MAX_DETAIL_CHARS]
        text = "{{SarPrompt" + rule.number + "}}"
        yield PlaceholderLine(text, "variable", f"模型专用：{models}", f"for models {models}")


def tool_lines(tools: Mapping[str, ToolSpec], groups: Iterable[str]) -> Iterator[PlaceholderLine]:
    """Descriptions of tools, of all, and of groups."""
    yield PlaceholderLine("{{VCPAllTools}}", "tool", "全部工具说明", "descriptions of all tools")
    for name, spec in _first(tools.items()):
        if describe(spec) is not None and spec.origin != GROUPS:
            shown = _short(spec.display)
            yield PlaceholderLine("{{VCP" + name + "}}", "tool", f"工具：{shown}", f"tool: {shown}")
    named = list(_first(groups))
    if named:
        yield PlaceholderLine("{{VCPToolGroups}}", "tool", "全部工具组", "all groups of tools")
    for name in named:
        yield PlaceholderLine("{{VCPToolGroup::" + name + "}}", "tool", f"工具组 {name}", f"group of tools {name}")


def static_lines(keys: Iterable[tuple[str, str]], *, chinese: str, english: str) -> Iterator[PlaceholderLine]:
    """Values that plugins or nodes bring: each key without braces, and who fills it."""
    for key, owner in _first(keys):
        yield PlaceholderLine("{{" + key + "}}", "static", f"{chinese} {owner}", f"{english} {owner}")


def notebook_lines(names: Iterable[str]) -> Iterator[PlaceholderLine]:
    """The forms in which notebooks stand in prompts."""
    for name in _first(names):
        diary = f"{name}{DIARY_SUFFIX}"
        yield PlaceholderLine("{{" + diary + "}}", "diary", "日记本全文", "the whole notebook")
        yield PlaceholderLine(f"[[{diary}]]", "diary", "检索片段", "recalled fragments")
        yield PlaceholderLine(f"<<{diary}>>", "diary", "相关时给全文", "the whole notebook when it fits the question")
        yield PlaceholderLine(f"《《{diary}》》", "diary", "相关时检索片段", "recalled fragments when they fit")
    yield PlaceholderLine("{{AllCharacterDiariesData}}", "diary", "全部日记 (JSON)", "all notebooks as JSON")


def file_lines(home: Path) -> Iterator[PlaceholderLine]:
    """Lists of emoji and presets of VCPTavern, which are files; blocks."""
    for name in _first(_stems(home / LISTS_FOLDER, ".txt")):
        yield PlaceholderLine("{{" + name + "}}", "emoji", "表情包列表", "a list of emoji")
    for name in _first(preset_names(home)):
        yield PlaceholderLine("{{VCPTavern::" + name + "}}", "preset", f"注入预设 {name}", f"injects the preset {name}")


def preset_names(home: Path) -> list[str]:
    """Presets of VCPTavern by name; blocks."""
    return sorted({name for folder in _PRESET_FOLDERS for name in _stems(home / folder, ".json")})


def built_in_lines() -> Iterator[PlaceholderLine]:
    """What the server itself knows."""
    for text, chinese, english in (
        ("{{Date}}", "今天的日期", "the date of today"),
        ("{{Time}}", "现在的时间", "the time of now"),
        ("{{Today}}", "星期几", "the day of the week"),
        ("{{Festival}}", "农历与节气", "the lunar date"),
        ("{{Port}}", "服务端口", "the server's port"),
        ("{{Image_Key}}", "图床密钥", "the key of pictures"),
        (SHOW_BASE64, "不转述媒体", "media is left alone"),
        ("{{VCP_ASYNC_RESULT::插件::任务}}", "异步任务结果", "the result of a background task"),
    ):
        yield PlaceholderLine(text, "built-in", chinese, english)


def _first(items: Iterable[T]) -> Iterator[T]:
    return islice(items, MAX_OF_A_KIND)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_DETAIL_CHARS else f"{line[:MAX_DETAIL_CHARS]}…"


def _stems(folder: Path, suffix: str) -> list[str]:
    try:
        return sorted(path.stem for path in folder.iterdir() if path.suffix == suffix)
    except OSError:  # there are none
        return []
