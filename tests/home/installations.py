"""A home that looks like an installation of the reference server, written anew for each test that wants one."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

SECRETS = {
    "Key": "old-bearer-key-0001",
    "API_Key": "old-upstream-key-0002",
    "Image_Key": "old-picture-key-0003",
    "File_Key": "old-file-key-0004",
    "VCP_Key": "old-websocket-key-0005",
    "AdminPassword": "old-admin-password-0006",
    "TavilyKey": "old-tavily-key-0007",
}
"""Every secret of the old installation; none of them may be shown anywhere."""

CONFIG = f"""# my server
PORT=6005
API_URL=https://models.example.com/v1
API_Key={SECRETS["API_Key"]}
Key={SECRETS["Key"]}
Image_Key={SECRETS["Image_Key"]}
File_Key={SECRETS["File_Key"]}
VCP_Key={SECRETS["VCP_Key"]}
AdminUsername=admin
AdminPassword={SECRETS["AdminPassword"]}
TavilyKey={SECRETS["TavilyKey"]}
DebugMode=False
ShowVCP=false
MaxVCPLoopStream=5
WhitelistEmbeddingModel=some/embedding-model
TarSysPrompt="{{{{VarTimeNow}}}} in {{{{VarCity}}}}. {{{{VCPWeatherInfo}}}}"
TarEmojiPrompt="{{{{通用表情包}}}}"
VarTimeNow="{{{{Date}}}} {{{{Time}}}} {{{{Today}}}} {{{{Festival}}}}"
VarCity=北京
VarToolList=VarToolList.txt
SarModel1=gemini-2.5-flash
SarPrompt1="be brief"
Detector1="as an AI"
Detector_Output1="as myself"
Some stray line that means nothing
"""


def write(home: Path, name: str, text: str) -> Path:
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8"))
    return path


def write_manifest(home: Path, folder: str, *, blocked: bool = False, **manifest: Any) -> Path:
    """A plugin's folder with a manifest of the old form."""
    content = {
        "manifestVersion": "1.0.0",
        "name": folder,
        "displayName": f"插件 {folder}",
        "version": "1.0.0",
        "description": "…",
        "author": "somebody",
        "pluginType": "synchronous",
        "entryPoint": {"type": "python", "command": "python main.py"},
        "communication": {"protocol": "stdio", "timeout": 10000},
        **manifest,
    }
    name = "plugin-manifest.json.block" if blocked else "plugin-manifest.json"
    return write(home, f"Plugin/{folder}/{name}", json.dumps(content, ensure_ascii=False, indent=2)).parent


def described(name: str) -> dict[str, Any]:
    """Capabilities with one described command."""
    return {"invocationCommands": [{"commandIdentifier": name, "description": f"does {name}", "example": "…"}]}


def direct(script: str) -> dict[str, Any]:
    """A module that the old server loaded into itself."""
    return {"entryPoint": {"type": "nodejs", "script": script}, "communication": {"protocol": "direct"}}


def write_database(path: Path, rows: int = 1) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE chunks (id INTEGER PRIMARY KEY, content TEXT)")
        database.executemany("INSERT INTO chunks (content) VALUES (?)", [(f"块 {number}",) for number in range(rows)])
        database.commit()


def old_installation(home: Path) -> Path:
    """Write the whole home: settings, prompts, plugins of every kind, diaries, stores, tasks, results."""
    write(home, "config.env", CONFIG).chmod(0o644)
    write(
        home,
        "agent_map.json",
        '{\n  "//": "note",\n  "//": "another note",\n  "Nova": "Nova.txt",\n  "小克": "sub\\\\小克.txt"\n}\n',
    )
    write(home, "Agent/Nova.txt", "You are Nova. {{TarSysPrompt}}\n{{VarToolList}}\n{{公共日记本}}\n{{小克}}\n")
    write(home, "Agent/sub/小克.txt", "\ufeff你是小克。\r\n[[小克日记本:1.5::Time]]\r\n{{VCPTavern::dailychat}}\r\n")
    write(home, "TVStxt/VarToolList.txt", "{{VCPTavilySearch}}\n{{VCPSciCalculator}}\n{{VCPChromePageInfo}}\n")
    write(home, "ModelRedirect.json", '{"gpt-4": "some/other-model"}')
    write(home, "preprocessor_order.json", '["RAGDiaryPlugin", "WorkspaceInjector"]')
    write(home, "ip_blacklist.json", '["203.0.113.7"]')

    search = write_manifest(
        home,
        "TavilySearch",
        configSchema={"TavilyKey": "string"},
        entryPoint={"type": "nodejs", "command": "node TavilySearch.js"},
        capabilities=described("search"),
    )
    write(home, "Plugin/TavilySearch/TavilySearch.js", "")
    write(search, "config.env", "# nothing\n")
    write_manifest(
        home, "ImageServer", pluginType="service", configSchema={"Image_Key": "string"}, **direct("image.js")
    )
    write_manifest(home, "RAGDiaryPlugin", pluginType="hybridservice", **direct("RAGDiaryPlugin.js"))
    write_manifest(
        home,
        "ChromeBridge",
        pluginType="hybridservice",
        capabilities={"systemPromptPlaceholders": [{"placeholder": "{{VCPChromePageInfo}}"}]},
        **direct("ChromeBridge.js"),
    )
    write_manifest(home, "VCPTavern", pluginType="hybridservice", **direct("VCPTavern.js"))
    write(home, "Plugin/VCPTavern/presets/dailychat.json", '{"rules": []}')
    write(home, "Plugin/RAGDiaryPlugin/rag_tags.json", "{}")
    write_manifest(
        home,
        "WeatherReporter",
        pluginType="static",
        entryPoint={"type": "python", "command": "python weather.py", "interpreter": "server"},
        refreshIntervalCron="0 */8 * * *",
        capabilities={"systemPromptPlaceholders": [{"placeholder": "{{VCPWeatherInfo}}"}]},
        configSchema={"WeatherKey": "string", "VarCity": "string"},
    )
    write(home, "Plugin/WeatherReporter/weather.py", "print('sunny')\n")
    write_manifest(home, "CodeSearcher", name="ServerCodeSearcher", entryPoint={"command": "CodeSearcher.exe"})
    write(home, "Plugin/CodeSearcher/CodeSearcher.exe", "MZ").chmod(0o755)
    write_manifest(home, "MCPO", blocked=True)
    write(home, "Plugin/MCPO/node_modules/dep/index.js", "")

    write(home, "dailynote/公共/2025-11-27-08_00_00.txt", "[2025-11-27] - Nova\nhello\nTag: 一, 二")
    write(home, "dailynote/小克/2025-11-28.md", "[2025-11-28] - 小克")
    (home / "dailynote" / "空").mkdir()
    write(home, "knowledge/公司/制度.md", "年假有几天")
    write(home, "memory/aimemo/short.txt", "{{knowledge_base}}")
    write(home, ".vcp/memory/knowledge/index.sqlite", "")
    write_database(home / "VectorStore" / "knowledge_base.sqlite", 3)
    write(home, "VectorStore/index_global_tags.usearch", "index")
    write(home, "VCPAsyncResults/VideoGen-abc.json", '{"status": "Succeed"}')
    write(
        home,
        "VCPTimedContacts/task-1.json",
        json.dumps(
            {
                "taskId": "task-1",
                "scheduledLocalTime": "2099-01-05T08:00:00+08:00",
                "tool_call": {"tool_name": "SciCalculator", "arguments": {"expression": "1+1"}},
            }
        ),
    )
    write(home, "image/通用表情包/笑.png", "png")
    write(home, "Plugin/EmojiListGenerator/generated_lists/通用表情包.txt", "笑.png")
    write(home, "file/a.txt", "a")
    write(home, "DebugLog/ServerLog-1.txt", "log")
    write(home, ".file_cache/abc.png", "cached")
    write(home, "ToolConfigs/mine.json", "{}")
    write(home, "node_modules/x/index.js", "")
    write(home, "server.js", "// the old program\n")
    return home


def path_with_node(folder: Path) -> str:
    """A PATH on which there is a program called node, which nothing here ever starts."""
    write(folder, "node", "#!/bin/sh\nexit 1\n").chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def snapshot(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything below a folder: mode, time of change and content."""
    found = {}
    for path in [folder, *folder.rglob("*")]:
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(folder))] = (status.st_mode, status.st_mtime_ns, content)
    return found
