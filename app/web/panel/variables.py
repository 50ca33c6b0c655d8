"""The page of variables: files below ``TVStxt/``, and what ``config.env`` says of Tar, Var and Sar."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from app.extend import DeclaredRoute, PageGroup, PanelPage, SearchHit
from app.web.admin.prompt_files import variable_texts
from app.web.panel.frame import URL, Panel, panel_route
from app.web.panel.prompt_texts import TextFilePages, TextPage

SHOWN = 1_000
VALUE_CHARS = 200

PAGE = TextPage(
    "variables", ("变量", "Variables"), "tvsvars", variable_texts, (("list", ("配置中的变量", "Variables in use")),)
)


@dataclass(frozen=True, slots=True)
class VariableLine:
    """A variable of ``config.env``: the beginning of its value, the file it names, and whether that is there."""

    name: str
    value: str
    models: str = ""
    file: str = ""
    missing: bool = False


class VariablesPart:
    """Files, trash, and the list of variables."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        unused = (
            "config.env 中没有变量指向此文件（Var名称=文件名.txt）。",
            "No variable of config.env names this file (VarName=file.txt).",
        )
        self._files = TextFilePages(panel, PAGE, self._names, unused)

    def pages(self) -> Sequence[PanelPage]:
        """One."""
        return (PanelPage("variables", PageGroup.PROMPTS, *PAGE.title, 20, "TVStxt Tar Var Sar 变量文件"),)

    def routes(self) -> Sequence[DeclaredRoute]:
        """The pages and their forms."""
        return (panel_route("/variables/list", self._list), *self._files.routes())

    async def find(self, words: str, limit: int) -> Sequence[SearchHit]:
        """Variables by name, then files."""
        lines = await asyncio.to_thread(self._lines)
        named = [
            SearchHit(line.name, line.name, f"{URL}/variables/list?q={line.name}", line.value[:60])
            for line in lines
            if words.lower() in line.name.lower()
        ][:limit]
        return [*named, *await self._files.find(words, limit - len(named))] if len(named) < limit else named

    def _names(self, path: str) -> list[str]:
        return [line.name for line in self._lines() if line.file.replace("\\", "/") == path]

    def _lines(self) -> list[VariableLine]:
        families = self._panel.services.config.families
        there = {line.path for line in self._files.texts().files().files}
        listed = [
            *((name, value, "") for name, value in families.variables),
            *((f"SarPrompt{rule.number}", rule.prompt, ", ".join(rule.models)) for rule in families.sar),
        ]
        return [
            VariableLine(
                name,
                value[:VALUE_CHARS],
                models[:VALUE_CHARS],
                value if (named := value.lower().endswith(".txt")) else "",
                named and value.replace("\\", "/") not in there,
            )
            for name, value, models in listed
        ]

    async def _list(self, request: Request) -> Response:
        words = request.query_params.get("q", "").strip()[:200]
        lines = await asyncio.to_thread(self._lines)
        found = [line for line in lines if words.lower() in f"{line.name} {line.value}".lower()]
        return self._panel.page(
            request,
            "variables_list.html",
            "variables",
            **self._files.frame(request),
            lines=found[:SHOWN],
            total=len(found),
            words=words,
        )
