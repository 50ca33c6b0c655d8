"""Homes for the panel: one as on the first day, one that is in use and in which all that outsiders fill is hostile."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path

from app.extend import CallContext, CallFinished, Door, Outcome, RoundFinished, ToolCall, ToolResult, TurnStarted
from app.observe.history import SAMPLE_SECONDS, History, packed
from app.services.overview import HISTORY_FILE
from tests.external.browser import NAME, PASSWORD
from tests.server import ECHO, write_plugin

XSS = "\"><img src=x onerror=\"alert('xss')\"><script>alert('xss')</script>{{constructor.constructor('alert(1)')()}}"
SETTINGS = (
    f"AdminUsername={NAME}",
    f"AdminPassword={PASSWORD}",
    "Key=the-key-of-this-server",
    "MemoryEmbedder=hashing",
    "DEFAULT_TIMEZONE=Asia/Shanghai",
)


def fresh_home(home: Path) -> None:
    """Nothing but what the panel needs."""
    (home / "config.env").write_text("\n".join(SETTINGS) + "\n", encoding="utf-8")


def used_home(home: Path) -> None:
    """Agents, notes, plugins, tasks, results: in every text that a model, a client or a plugin gives stands ``XSS``."""
    fresh_home(home)
    with (home / "config.env").open("a", encoding="utf-8") as file:
        file.write(f"TarSysPrompt=今天是 {{{{Date}}}}。{{{{Missing}}}}\nVarCity=杭州\nVarHostile={XSS}\n")
    (home / "Agent").mkdir()
    (home / "Agent" / "Nova.txt").write_text(
        f"你是 Nova。{{{{VarCity}}}} {{{{VCPAllTools}}}}\n{XSS}\n", encoding="utf-8"
    )
    (home / "agent_map.json").write_text(json.dumps({"Nova": "Nova.txt", XSS: "gone.txt"}), encoding="utf-8")
    (home / "TVStxt").mkdir()
    (home / "TVStxt" / "Guide.txt").write_text(f"工具指南 {XSS}\n", encoding="utf-8")
    for notebook, count in (("小克", 8), ("公共", 2), ("推理簇", 1)):
        folder = home / "dailynote" / notebook
        folder.mkdir(parents=True)
        for number in range(1, count + 1):
            head = f"[2026-11-{number:02}] - {notebook}"
            text = f"{head}\n今天和小明去了西湖，第 {number} 次看到白鹭。{XSS}\nTag: 西湖, 白鹭\n"
            (folder / f"2026-11-{number:02}-10_00_00.txt").write_text(text, encoding="utf-8")
    write_plugin(
        home,
        "Echo",
        ECHO,
        description=XSS,
        displayName=XSS,
        capabilities={"invocationCommands": [{"commandIdentifier": "Say", "description": XSS, "example": XSS}]},
    )
    write_plugin(home, "Fails", "raise SystemExit(3)", description=f"fails {XSS}")
    broken = home / "Plugin" / "Broken"
    broken.mkdir()
    (broken / "plugin-manifest.json").write_text('{"name": "Broken", ', encoding="utf-8")
    (home / "mcp_servers.json").write_text(
        json.dumps({"mcpServers": {"gone": {"command": "/no/such/program", "args": [XSS]}}}), encoding="utf-8"
    )
    forum = home / "dailynote" / "VCP论坛"
    forum.mkdir()
    name = "[技术][西湖的白鹭][Nova][2026-11-20T10-00-00.000Z][1763632800000-abcdef01].md"
    (forum / name).write_text(
        "# 西湖的白鹭\n\n**作者:** Nova\n**UID:** 1763632800000-abcdef01\n**时间戳:** 2026-11-20T10:00:00.000Z\n"
        f"**路径:** ./{name}\n\n---\n\n正文 {XSS} [链接](javascript:alert(1))\n\n---\n\n## 评论区\n---\n"
        f"\n---\n### 楼层 #1\n**回复者:** {XSS}\n**时间:** 2026-11-20T11:00:00.000Z\n\n回复 {XSS}\n",
        encoding="utf-8",
    )


def shown_home(home: Path) -> None:
    """An installation as a person has it, for pictures: no hostile texts, a few of everything."""
    fresh_home(home)
    (home / "config.env").chmod(0o600)
    _hour(home)
    with (home / "config.env").open("a", encoding="utf-8") as file:
        file.write("TarSysPrompt=今天是 {{Date}}，{{VarCity}}。\nVarCity=杭州\nVarUser=小明\n")
    (home / "Agent").mkdir()
    (home / "Agent" / "Nova.txt").write_text(
        "你是 Nova，{{VarUser}} 的助手，住在 {{VarCity}}。\n\n{{TarSysPrompt}}\n\n"
        "[[Nova日记本::Time]]\n\n{{VCPSciCalculator}}\n",
        encoding="utf-8",
    )
    (home / "agent_map.json").write_text(json.dumps({"Nova": "Nova.txt"}), encoding="utf-8")
    (home / "TVStxt").mkdir()
    (home / "TVStxt" / "Guide.txt").write_text("工具使用指南：需要计算时请调用 SciCalculator。\n", encoding="utf-8")
    days = {
        "Nova": ("西湖的白鹭", "面板的设计讨论", "给阳台的花换了盆", "读完《长安的荔枝》", "备份脚本改成每周日运行"),
        "公共": ("路由器的密码写在书房的便签上", "物业电话 0571-8000-0000"),
        "推理簇": ("先列出已知条件，再看缺什么。",),
    }
    for notebook, texts in days.items():
        folder = home / "dailynote" / notebook
        folder.mkdir(parents=True)
        for number, text in enumerate(texts, 20):
            note = f"[2026-11-{number}] - {notebook}\n{text}\nTag: {text[:4]}\n"
            (folder / f"2026-11-{number}-21_15_00.txt").write_text(note, encoding="utf-8")


def _hour(home: Path) -> None:
    """Numbers of the last hour, as a server that is chatted with now and then leaves them behind."""
    now = [time.time() - 3600.0]
    history = History(lambda: now[0])
    while now[0] < time.time():
        minute = int(now[0] / 60)
        busy = 1.0 + math.sin(minute / 7) + math.sin(minute / 3)
        if minute % 3 == 0 and busy > 1 and int(now[0] / SAMPLE_SECONDS) % 12 == 0:
            turn = f"turn-{minute}"
            history.observe(TurnStarted(turn, "nova", True, None))
            tokens = {"prompt_tokens": int(900 * busy), "completion_tokens": int(260 * busy)}
            history.observe(RoundFinished(turn, 1, "stop", tokens))
            if minute % 2 == 0:
                call, context = ToolCall("call", "SciCalculator", {}), CallContext(turn, Door.STREAM)
                history.observe(CallFinished(turn, call, context, None, Outcome.SUCCESS, ToolResult("ok"), 0, 0.1))
        history.sample(4 + 9 * max(0.0, busy), (150 + 12 * busy) * 1024 * 1024, 0.002 + 0.002 * max(0.0, busy))
        now[0] += SAMPLE_SECONDS
    path = home / HISTORY_FILE
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(packed(history.kept()))
