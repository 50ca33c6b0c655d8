"""What a person should look at: everything that is wrong now and would else be seen in the log alone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from shutil import disk_usage
from typing import TYPE_CHECKING

from app.mcp.client.status import ServerState

if TYPE_CHECKING:
    from app.services.root import Services

LEAST_FREE_BYTES = 500 * 1024 * 1024
LEAST_FREE_SHARE = 0.03
"""A disk with less than both is told, and one with less than the first in any case."""

STALE_SECONDS = 600.0
"""Notes that wait longer for the index are told."""

MAX_TEXT_CHARS = 500
MAX_ITEMS = 300
"""Most items that are told."""


class Kind(StrEnum):
    """How bad it is: something does not work, may not work, or is good to know. In their order."""

    BAD = "bad"
    WARN = "warn"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Attention:
    """One thing, in both languages. ``address`` is the page of the panel that is about it, below ``/AdminPanel/``.

    ``place`` names the file and line, the plugin or server that is meant; empty when the text does.
    """

    kind: Kind
    chinese: str
    english: str
    address: str = ""
    place: str = ""


async def attention(services: Services) -> tuple[Attention, ...]:
    """All of it, the worst first, at most ``MAX_ITEMS``. Does not hold up the event loop."""
    checked = await services.overview.checked.findings()
    found = [
        *_server(services),
        *_upstreams(services),
        *_mcp_servers(services),
        *_plugins(services),
        *(checked if checked is not None else _problems(services)),
        *await _disk(services),
        *_memory(services),
        *_people(services),
    ]
    order = list(Kind)
    found = [_short(one) for one in dict.fromkeys(found)]
    return tuple(sorted(found, key=lambda one: order.index(one.kind))[:MAX_ITEMS])


def in_both(text: str) -> tuple[str, str]:
    """Chinese and English of a text that ``both`` made, or the same twice."""
    chinese, between, english = text.partition(" / ")
    return (chinese, english) if between else (text, text)


def _short(one: Attention) -> Attention:
    if max(len(one.chinese), len(one.english)) <= MAX_TEXT_CHARS:
        return one
    return Attention(one.kind, one.chinese[:MAX_TEXT_CHARS], one.english[:MAX_TEXT_CHARS], one.address, one.place)


def _server(services: Services) -> Iterator[Attention]:
    if services.started and (trouble := services.trouble()):
        chinese, english = in_both(trouble)
        yield Attention(Kind.BAD, f"服务器状态异常：{chinese}", f"The server is unwell: {english}", "logs")
    standing = {*map(str, services.config.problems), *services.found_plugins.problems}
    for problem in (one for one in services.overview.reload_problems if one not in standing):
        told = "部分改动没有生效，其余照旧", "A change is not in force; everything stays as it was"
        yield Attention(Kind.BAD, f"{told[0]}：{problem}", f"{told[1]}: {problem}", "config")


def _upstreams(services: Services) -> Iterator[Attention]:
    for status in services.upstream.status():
        if status.resting > 0:
            name, seconds = status.name or "API_URL", round(status.resting)
            yield Attention(
                Kind.WARN,
                f"模型接口连续失败 {status.failures} 次，{seconds} 秒内优先使用其他接口",
                f"The model API has failed {status.failures} times in a row; others are asked first for {seconds} s",
                "config",
                name,
            )


def _mcp_servers(services: Services) -> Iterator[Attention]:
    for status in services.mcp.upstream_servers.states():
        if status.state is ServerState.FAILED:
            chinese, english = in_both(status.error)
            told = "MCP 服务器无法使用", "The MCP server cannot be used"
            yield Attention(Kind.BAD, f"{told[0]}：{chinese}", f"{told[1]}: {english}", "mcp", status.name)
        if status.state is ServerState.SIGN_IN or services.mcp.trust.needed(status.name) is not None:
            told = "MCP 服务器需要登录", "The MCP server needs a sign-in"
            yield Attention(Kind.WARN, *told, "mcp", status.name)
        if status.changed:
            count = len(status.changed)
            yield Attention(
                Kind.WARN,
                f"MCP 服务器有 {count} 个工具的描述已改变，同意之前不可用",
                f"{count} tools of the MCP server have changed and wait for consent",
                "mcp",
                status.name,
            )


def _plugins(services: Services) -> Iterator[Attention]:
    for state in services.in_process.states():
        if state.problem:
            chinese, english = in_both(state.problem)
            told = "插件无法加载", "The plugin cannot be loaded"
            yield Attention(Kind.BAD, f"{told[0]}：{chinese}", f"{told[1]}: {english}", "plugins", state.name)
    for static in services.statics.states():
        if static.last_error:
            chinese, english = in_both(static.last_error)
            told = "静态插件最近一次运行失败", "The static plugin's last run failed"
            yield Attention(Kind.WARN, f"{told[0]}：{chinese}", f"{told[1]}: {english}", "plugins", static.plugin)


def _problems(services: Services) -> Iterator[Attention]:
    """What the configuration and the plugins in force say of themselves, where nobody checks the installation."""
    for problem in services.config.problems:
        yield Attention(Kind.WARN, str(problem), str(problem), "config")
    for complaint in services.found_plugins.problems:
        yield Attention(Kind.WARN, *in_both(complaint), "plugins")
    for plugin in services.found_plugins.plugins:
        if plugin.lacks:
            told = (
                f"本机没有 {plugin.lacks}，插件无法运行",
                f"{plugin.lacks} is not on this machine; the plugin cannot run",
            )
            yield Attention(Kind.BAD, *told, "plugins", plugin.name)


async def _disk(services: Services) -> list[Attention]:
    try:
        disk = await asyncio.to_thread(disk_usage, services.config.home)
    except OSError as error:
        reason = error.strerror or str(error)
        return [Attention(Kind.BAD, f"无法读取安装目录：{reason}", f"The home cannot be read: {reason}")]
    if disk.free >= LEAST_FREE_BYTES and disk.free >= LEAST_FREE_SHARE * disk.total:
        return []
    free = disk.free // (1024 * 1024)
    kind = Kind.BAD if disk.free < LEAST_FREE_BYTES else Kind.WARN
    return [Attention(kind, f"磁盘快满了，只剩 {free} MiB", f"The disk is nearly full: {free} MiB are left")]


def _memory(services: Services) -> Iterator[Attention]:
    readings = services.memory.readings()
    waiting, stale = readings.get(("waitingNotes",), 0.0), readings.get(("staleSeconds",), 0.0)
    if waiting and stale > STALE_SECONDS:
        minutes = round(stale / 60)
        yield Attention(
            Kind.WARN,
            f"{waiting:.0f} 篇日记已等待索引 {minutes} 分钟",
            f"{waiting:.0f} notes have waited for the index for {minutes} minutes",
            "memory-index",
        )


def _people(services: Services) -> Iterator[Attention]:
    """What waits for a person, and who was sent away."""
    now = time.time()
    for pending in services.approvals.pending():
        seconds = max(0, round(pending.asked_at + pending.seconds - now))
        if pending.question is None:
            told = f"工具调用等待审批，还剩 {seconds} 秒", f"A tool call waits for approval, {seconds} s more"
        else:
            told = f"有问题等待回答，还剩 {seconds} 秒", f"A question waits for an answer, {seconds} s more"
        yield Attention(Kind.WARN, *told, "approvals", pending.call.tool)
    if blocked := services.overview.blocked():
        yield Attention(Kind.INFO, f"{blocked} 个地址被拒绝访问", f"{blocked} addresses are refused", "blocked")
