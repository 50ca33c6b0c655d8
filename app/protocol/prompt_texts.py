"""Wire literals of the prompt engine (vcp-core 3, memory 1.7 and 2.2), which prompts rely on byte for byte."""

from __future__ import annotations

SHOW_BASE64 = "{{ShowBase64}}"
"""Switches media translation off for one request (3.1 step 1)."""

SYSTEM_USER_PREFIX = "[系统"
"""User texts that begin like this are system notes of a client (3.2 C1, D7)."""

DIARY_SUFFIX = "日记本"
EMOJI_SUFFIX = "表情包"

NO_TOOLS = "没有可用的VCP工具描述信息"
TOOL_SEPARATOR = "\n\n---\n\n"
DIARY_SEPARATOR = "\n\n---\n\n"

WEEKDAYS = ("星期一", "星期二", "星期三", "星期四", "星期五", "星期六", "星期日")
"""Long zh-CN weekday names, Monday first."""


def agent_cycle(alias: str) -> str:
    """Stands in for an agent that is already being expanded (3.2 phase A)."""
    return f"[Error: Circular agent reference detected for '{alias}']"


def agent_unreadable(alias: str) -> str:
    """Stands in for an agent whose file cannot be read (3.2 phase A)."""
    return f"[AgentManager: Error loading prompt for '{alias}'. File not found or unreadable.]"


def variable_cycle(name: str) -> str:
    """Stands in for a variable that is already being expanded (B30)."""
    return f"[Error: Circular variable reference detected for '{name}']"


def variable_empty(name: str) -> str:
    """Stands in for a variable with an empty value (3.2 C2)."""
    return f"[未配置 {name}]"


def variable_file_missing(file: str) -> str:
    """Stands in for a text file that does not exist (3.2)."""
    return f"[变量文件 ({file}) 未找到]"


def variable_file_unreadable(file: str) -> str:
    """Stands in for a text file that exists but cannot be read, or lies outside of its folder (3.2)."""
    return f"[处理变量文件 ({file}) 时出错]"


def static_loading(display: str) -> str:
    """The value of a static plugin whose first run has not ended (5.6)."""
    return f"[{display} a-zheng-zai-jia-zai-zhong... ]"


def static_failed(name: str, reason: str) -> str:
    """The value of a static plugin that has never worked (5.6)."""
    return f"[Error updating {name}: {reason[:100]}...]"


def static_unavailable(key: str) -> str:
    """Stands in for an empty value (3.4); ``key`` is written without braces, as nobody may expand it again."""
    return f"[{key} 信息不可用]"


def static_cut(name: str, characters: int) -> str:
    """Note in place of the end of a value that is over the limit; not a wire literal."""
    return (
        f"[{name} 的输出超过 {characters} 字，其余部分已省略 / "
        f"output of {name} longer than {characters} characters, the rest is left out]"
    )


def emoji_list_missing(name: str) -> str:
    """Stands in for an emoji list that does not exist; ``name`` is the full one (3.2 phase B)."""
    return f"[{name}列表不可用]"


def diary_missing(name: str) -> str:
    """Stands in for a notebook that does not exist (3.2 phase B)."""
    return f"[{name}日记本内容为空或未从插件获取]"


def diary_empty(name: str) -> str:
    """The text of a notebook without files (memory 1.7)."""
    return f"[{name}日记本内容为空]"


def diary_file_unreadable(file: str) -> str:
    """Stands in for one file of a notebook that cannot be read (memory 1.7)."""
    return f"[Error reading file: {file}]"


def diary_cut(name: str, characters: int) -> str:
    """Note in place of the oldest part of a notebook that is over the limit; not a wire literal."""
    return (
        f"[{name}日记本超过 {characters} 字，较早的内容已省略 / "
        f"notebook longer than {characters} characters, the earlier part is left out]"
    )


def tool_group_heading(name: str) -> str:
    """Stands before the tools of a group that fits the conversation; not a wire literal."""
    return f"[与当前对话相关的工具组：{name}]\n"


def tool_group_rest(name: str, tools: int) -> str:
    """Stands for the tools of a group that had no room; not a wire literal."""
    return f"（工具组 {name} 另有 {tools} 个工具，可用 get-modular-tools 查看）"
