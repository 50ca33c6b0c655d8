"""DailyNoteManager: lists, merges and archives notes, and finds those that are near to others (memory.md 1.7)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping

from app.errors import both
from app.extend import CallContext, Json, PluginContext, Remembered, ToolCall
from app.memory.diaries.files import DiaryError
from app.memory.diaries.notebooks import find_note, resolve_notebook
from app.memory.diaries.organizing import addresses, agent_of, list_notes, moved_report, organize, save_blocks
from app.memory.diaries.permissions import Permissions, read_permissions
from app.memory.diaries.requests import DiarySettings, read_settings, text_argument

MAX_NEIGHBOURS = 200
SNIPPET_CHARS = 300

COMMANDS = ("list", "organize", "associate")


class DailyNoteManager:
    """The plugin. Files are read and written in threads, the index is asked through the server."""

    def __init__(self, context: PluginContext) -> None:
        self._context = context

    async def call(self, call: ToolCall, _context: CallContext) -> Json:
        """The text for the model; raises DiaryError, and what memory raises."""
        arguments = call.arguments
        command = text_argument(arguments, "command").strip() or (call.command or "")
        if command.lower() == "associate":
            return await self._associate(arguments)
        return await asyncio.to_thread(self._files, command, arguments)

    def _files(self, command: str, arguments: Mapping[str, Json]) -> str:
        settings, permissions = self._surroundings()
        if command.lower() == "list":
            return list_notes(arguments, settings.root, permissions)
        if command.lower() == "organize":
            return moved_report(organize(arguments, settings, permissions))
        return self._save(command, settings)

    def _save(self, text: str, settings: DiarySettings) -> str:
        """The older form: ``command`` is the text of the files."""
        if not text or "\n" not in text:
            raise DiaryError(
                f"未知的 command {text[:40]!r}，可用：{'、'.join(COMMANDS)}",
                f"unknown command {text[:40]!r}; there are {', '.join(COMMANDS)}",
            )
        saved, warnings = save_blocks(text, settings.root)
        lines = [both(f"日记处理完成，保存了 {len(saved)} 个文件", f"{len(saved)} files are saved"), *saved, *warnings]
        return "\n".join(lines)

    async def _associate(self, arguments: Mapping[str, Json]) -> str:
        settings, permissions = await asyncio.to_thread(self._surroundings)
        agent = agent_of(arguments)
        sources = await asyncio.to_thread(_sources, arguments, settings)
        for source in sources:
            permissions.check_read(agent, source.partition("/")[0])
        wanted = re.split(r"[,，\r\n]+", text_argument(arguments, "range", "folders"))
        notebooks = [resolve_notebook(settings.root, name) for name in wanted if name.strip()]
        found = await self._context.memory.neighbours(
            sources,
            notebooks=notebooks or None,
            k=int(_number(arguments, "k", 10, 1, MAX_NEIGHBOURS)),
            least=_number(arguments, "minScore", 0, 0, 1),
            tag_boost=_number(arguments, "tagBoost", 0.15, 0, 1),
        )
        return _told(sources, [one for one in found if permissions.may_read(agent, one.notebook)])

    def _surroundings(self) -> tuple[DiarySettings, Permissions]:
        home = self._context.home
        settings = read_settings({**self._context.environ, "PROJECT_BASE_PATH": str(home)})
        for warning in settings.warnings:
            self._context.log.warning("%s", warning)
        return settings, read_permissions(home)


def _sources(arguments: Mapping[str, Json], settings: DiarySettings) -> list[str]:
    return [find_note(settings.root, address).relative_to(settings.root).as_posix() for address in addresses(arguments)]


def _number(arguments: Mapping[str, Json], name: str, default: float, least: float, most: float) -> float:
    text = text_argument(arguments, name).strip().removesuffix("+")
    if not text:
        return default
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not least <= number <= most:
        raise DiaryError(f"{name} 应为 {least:g} 到 {most:g} 的数字", f"{name} is a number from {least:g} to {most:g}")
    return number


def _told(sources: list[str], found: list[Remembered]) -> str:
    if not found:
        return both("没有找到相近的日记", "no notes are near to these")
    lines = [both(f"与 {len(sources)} 篇日记相近的 {len(found)} 处", f"{len(found)} near to {len(sources)} notes")]
    for one in found:
        tags = f" | {', '.join(one.matched_tags)}" if one.matched_tags else ""
        lines.append(f"\n--- [{one.path}] --- {one.score:.3f}{tags}")
        lines.append(one.text[:SNIPPET_CHARS] + ("…" if len(one.text) > SNIPPET_CHARS else ""))
    return "\n".join(lines)


def create(context: PluginContext) -> DailyNoteManager:
    """The plugin's object."""
    return DailyNoteManager(context)
