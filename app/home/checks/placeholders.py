"""Who provides a placeholder: every source that the server knows, and a word where there is none (3.11)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from app.config.small_file import read_small
from app.home.checks.findings import Installation, Level
from app.home.checks.plugins import PluginCheck, PluginState, Status
from app.mcp.groups.file import FILE_NAME, MAX_FILE_BYTES, GroupFileError, read_groups
from app.protocol.json_text import strict_json
from app.protocol.prompt_texts import DIARY_SUFFIX

BRACES = re.compile(r"\{\{([^{}\r\n]+)\}\}")
ANGLES = re.compile(r"<<((?:Tar|Var|SarPrompt)[^<>\r\n]*)>>")
RECALL = re.compile(
    r"\[\[[^\[\]\r\n]+日记本[^\[\]\r\n]*\]\]"
    r"|《《[^《》\r\n]+日记本[^《》\r\n]*》》"
    r"|<<[^<>\r\n]+日记本>>"
    r"|\[\[VCP元思考[^\[\]\r\n]*\]\]"
    r"|\[\[AIMemo=True\]\]"
)
"""Recall forms (3.9)."""

EMOJI_SUFFIX = "表情包"
GROUP_PLACEHOLDER = "VCPToolGroup::"
EMOJI_LISTS = Path("Plugin", "EmojiListGenerator", "generated_lists")

_BUILT_IN = frozenset(
    {
        "AllCharacterDiariesData",
        "Date",
        "Festival",
        "Port",
        "ShowBase64",
        "Time",
        "Today",
        "VCPAllTools",
        "VCPToolGroups",
        # Only inside prompts of AgentAssistant.
        "AgentName",
        "MaidName",
    }
)
_ASYNC_RESULT = re.compile(r"VCP_ASYNC_RESULT::[A-Za-z0-9_.-]+::[A-Za-z0-9_-]+")
_SAR = re.compile(r"SarPrompt([0-9]+)")

_USUAL_PLUGINS: Mapping[str, str] = MappingProxyType(
    {
        "VCPWeatherInfo": "WeatherReporter",
        "VCPDailyHot": "DailyHot",
        "ArxivDailyPapersData": "ArxivDailyPapers",
        "CrossRefDailyPapersData": "CrossRefDailyPapers",
        "VCPFileServer": "FileListGenerator",
        "VCPFilestructureInfo": "FileTreeGenerator",
        "VCPForumLister": "ForumLister",
        "FRPSAllProxyInfo": "FRPSInfoProvider",
        "USER_AUTH_CODE": "UserAuth",
        "VCPChromePageInfo": "ChromeBridge",
        "1PanelDashboard": "1PanelInfoProvider",
        "1PanelOsInfo": "1PanelInfoProvider",
        "IMAPIndex": "IMAPIndex",
        "MCPOServiceStatus": "MCPOMonitor",
    }
)
"""Placeholders of the plugins that installations usually have, for a hint when such a plugin is not there."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a placeholder will not become what its writer wants."""

    level: Level
    chinese: str
    english: str


RECALL_IS_OFF = Verdict(
    Level.WARNING,
    "记忆功能未启用（Memory=false），会原样保留",
    "memory is switched off (Memory=false); it stays as written",
)


class Providers:
    """Everything that provides placeholders in one installation."""

    def __init__(self, installation: Installation, check: PluginCheck, aliases: frozenset[str]) -> None:
        self._home = installation.home
        self._notebooks = installation.config.notebooks
        self._config = installation.config
        self._check = check
        self._aliases = aliases
        self._variables = dict(installation.config.families.variables)
        self._sar = {rule.number for rule in installation.config.families.sar}
        self._static: dict[str, PluginState] = {}
        for state in sorted(check.states, key=lambda state: _served(state)):
            for entry in state.manifest.placeholders if state.manifest is not None else ():
                self._static[entry.placeholder.removeprefix("{{").removesuffix("}}")] = state
        self._groups = self._known_groups()
        self._image_key = self._config.settings.image_key or self._config.environ.get("Image_Key", "")
        self._workspaces = self._workspace_aliases()

    def recall_verdict(self) -> Verdict | None:
        """What is wrong with the recall forms; None when memory serves them (3.9)."""
        return None if self._config.settings.memory else RECALL_IS_OFF

    def verdict(self, name: str) -> Verdict | None:
        """What is wrong with ``{{name}}``; None when something provides it."""
        if name in self._aliases or name in _BUILT_IN or _ASYNC_RESULT.fullmatch(name):
            return None
        if name.startswith("agent:"):
            return self._agent(name.removeprefix("agent:"))
        if name in self._variables:
            return None if self._variables[name] else _wrong(f"{name} 的值为空", f"{name} has no value")
        if match := _SAR.fullmatch(name):
            return None if match[1] in self._sar else self._no_sar(match[1])
        if name in self._static:
            return self._by_plugin(self._static[name])
        if name == "Image_Key":
            return None if self._image_key else _wrong("未设置 Image_Key", "no Image_Key is set")
        if name.endswith(DIARY_SUFFIX):
            return self._notebook(name.removesuffix(DIARY_SUFFIX))
        if name.endswith(EMOJI_SUFFIX):
            return self._emoji_list(name)
        if "::" in name and name.startswith(("VCPTavern::", "Workspace::")):
            return self._preprocessed(*name.split("::")[:2])
        if name.startswith("VCP"):
            return self._tool(name)
        return self._unknown(name)

    def _agent(self, alias: str) -> Verdict | None:
        if alias in self._aliases:
            return None
        return Verdict(
            Level.ERROR, f"agent_map.json 里没有 {alias}", f"agent_map.json has no agent {alias}; it stays as written"
        )

    def _no_sar(self, number: str) -> Verdict:
        return _wrong(
            f"SarModel{number} 和 SarPrompt{number} 未同时设置，总是为空",
            f"SarModel{number} and SarPrompt{number} are not both set; it is always empty",
        )

    def _notebook(self, name: str) -> Verdict | None:
        if _is_folder(self._notebooks, name):
            return None
        where = f"{self._notebooks.name}/{name}"
        return _wrong(f"没有日记本 {where}", f"there is no notebook {where}")

    def _emoji_list(self, name: str) -> Verdict | None:
        if _plain(name) and (
            (self._home / EMOJI_LISTS / f"{name}.txt").is_file() or _is_folder(self._home / "image", name)
        ):
            return None
        return _wrong(f"没有表情包 image/{name}", f"there is no emoji pack image/{name}")

    def _preprocessed(self, kind: str, name: str) -> Verdict | None:
        """Presets and workspaces, whose plugin has to be there as well."""
        if kind == "VCPTavern":
            preset = self._home / "Plugin" / "VCPTavern" / "presets" / f"{name}.json"
            if not _plain(name) or not preset.is_file():
                return _wrong(f"没有预设 {name}", f"there is no preset {name} in Plugin/VCPTavern/presets")
            plugin = "VCPTavern"
        else:
            plugin = "WorkspaceInjector"
            folder = self._workspaces.get(name.partition("/")[0])
            if folder is None:
                return _wrong(f"WORKSPACE_ALIASES 里没有 {name}", f"WORKSPACE_ALIASES has no {name}")
            if "\0" in folder or not (self._home / folder).is_dir():
                return _wrong(f"目录 {folder} 不存在", f"its folder {folder} does not exist")
        state = self._check.named(plugin)
        return self._by_plugin(state) if state is not None else _missing(plugin)

    def _group(self, name: str) -> Verdict | None:
        if name in self._groups:
            return None
        return _wrong(
            f"没有工具组 {name}；若它是 MCP 服务器则可忽略",
            f"there is no group {name} of tools; fine if it is an MCP server",
        )

    def _known_groups(self) -> frozenset[str]:
        """The groups that the file and manifests name."""
        named = {name for state in self._check.states if state.manifest is not None for name in state.manifest.groups}
        try:
            table, _ = read_groups(read_small(self._home / FILE_NAME, MAX_FILE_BYTES))
        except (OSError, GroupFileError):
            table = ()
        return frozenset({*named, *(group.name for group in table)})

    def _tool(self, name: str) -> Verdict | None:
        if name.startswith(GROUP_PLACEHOLDER):
            return self._group(name.removeprefix(GROUP_PLACEHOLDER))
        state = self._check.named(name.removeprefix("VCP"))
        if state is not None:
            described = state.manifest is not None and any(command.description for command in state.manifest.commands)
            if not described and _served(state):
                return _wrong(
                    f"插件 {state.name} 没有工具说明，会原样保留",
                    f"plugin {state.name} describes no tool; it stays as written",
                )
            return self._by_plugin(state)
        if name in _USUAL_PLUGINS:
            return _missing(_USUAL_PLUGINS[name])
        return _wrong(
            f"没有名为 {name.removeprefix('VCP')} 的插件；若由远程节点提供则可忽略",
            f"no plugin is called {name.removeprefix('VCP')}; fine if a node brings it",
        )

    def _by_plugin(self, state: PluginState) -> Verdict | None:
        if _served(state):
            return None
        reasons = {
            Status.BLOCKED: ("已禁用", "is blocked"),
            Status.NOT_HERE: ("是 Node 模块，此处不运行", "is a Node module, which is not run here"),
        }
        chinese, english = reasons.get(state.status, ("无法运行", "cannot be run"))
        return _wrong(f"提供它的插件 {state.name} {chinese}", f"the plugin that provides it, {state.name}, {english}")

    def _unknown(self, name: str) -> Verdict:
        if name in _USUAL_PLUGINS:
            return _missing(_USUAL_PLUGINS[name])
        if name.startswith(("Tar", "Var", "Sar")):
            return Verdict(Level.ERROR, f"config.env 里没有 {name}", f"config.env has no {name}; it stays as written")
        return _wrong("没有任何来源提供它，会原样保留", "nothing provides it; it stays as written")

    def _workspace_aliases(self) -> Mapping[str, str]:
        try:
            value = strict_json(self._config.environ.get("WORKSPACE_ALIASES", "") or "{}")
        except (ValueError, RecursionError):
            return {}
        given = value if isinstance(value, dict) else {}
        return {alias: folder for alias, folder in given.items() if isinstance(folder, str)}


def _served(state: PluginState) -> bool:
    return state.status in (Status.RUNS, Status.PORT, Status.PROGRAM)


def _missing(plugin: str) -> Verdict:
    return _wrong(f"没有提供它的插件（通常是 {plugin}）", f"its usual plugin, {plugin}, is not there")


def _wrong(chinese: str, english: str) -> Verdict:
    return Verdict(Level.WARNING, chinese, english)


def _plain(name: str) -> bool:
    return bool(name) and len(name) <= 255 and not re.search(r"[/\\\0]", name) and name not in (".", "..")


def _is_folder(root: Path, name: str) -> bool:
    return _plain(name) and (root / name).is_dir()
