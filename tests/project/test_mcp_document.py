"""``docs/mcp.md``: its commands and files work as they are printed, its tables and error texts are the code's."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import httpx2
import mcp.client.streamable_http as sdk
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from app.config.snapshot import load
from app.mcp.client.entry_reader import LONG_SECONDS
from app.mcp.client.server_entry import ALIASES, KINDS, ServerEntry
from app.mcp.client.servers_file import CONTAINERS, read_servers
from app.mcp.groups.file import read_groups
from tests.cli.commands import Ended, command
from tests.program import ROOT, Program, started
from tests.server import run

TEXT = (ROOT / "docs" / "mcp.md").read_text(encoding="utf-8")
FOLDER_SERVER = Path(__file__).with_name("folder_server.py")
ADDRESS = "http://127.0.0.1:6005"
FOLDER = "/srv/docs"
"""The folder that the document speaks of; here it is a temporary one."""

SECRETS = {name: "secret" for name in ("SEARCH_TOKEN", "CALENDAR_SECRET", "TOKEN")}


def blocks(language: str, text: str = TEXT) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def part(title: str) -> str:
    """The text below a heading, up to the next one of its kind."""
    marks = next(line for line in TEXT.splitlines() if line.lstrip("#") == f" {title}").partition(" ")[0]
    return TEXT.partition(f"\n{marks} {title}\n")[2].partition(f"\n{marks} ")[0]


def lines(text: str) -> list[str]:
    """Each command of ``vcp``, without what is said about it."""
    return [
        line.partition("  #")[0].strip()
        for block in blocks("sh", text)
        for line in block.splitlines()
        if line.startswith("vcp ")
    ]


FIRST_SERVERS = blocks("json")[0]


@dataclass(frozen=True, slots=True)
class Installation:
    """A home with the document's first server, in which ``vcp serve`` runs; ``path`` has an ``npx`` that is ours."""

    home: Path
    folder: Path
    path: str
    server: Program

    def here(self, text: str) -> str:
        """A text of the document for this machine."""
        return text.replace(FOLDER, str(self.folder)).replace(ADDRESS, self.server.base_url.removesuffix("/v1"))

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.server.key}"}

    def post(self, path: str, **body: Any) -> Any:
        headers = {"Content-Type": "text/plain" if "content" in body else "application/json"}
        url = self.here(ADDRESS) + path
        return httpx.post(url, headers={**headers, **self.headers}, timeout=60, trust_env=False, **body)


Run = Callable[[str], Ended]


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    base = tmp_path_factory.mktemp("an installation 目录")
    home, folder, programs = (base / name for name in ("home", "my books", "programs"))
    for made in (home, folder, programs):
        made.mkdir()
    (folder / "poem.txt").write_text("roses are red", encoding="utf-8")
    npx = programs / "npx"
    npx.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -S -E {shlex.quote(str(FOLDER_SERVER))} "$@"\n')
    npx.chmod(0o755)
    path = f"{programs}:/usr/bin:/bin"
    (home / "mcp_servers.json").write_text(FIRST_SERVERS.replace(FOLDER, str(folder)), encoding="utf-8")
    with started("serve", "--home", ".", "--port", "0", cwd=home, environ={"PATH": path}) as server:
        yield Installation(home, folder, path, server)


@pytest.fixture
def vcp(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], Ended]:
    """Runs a command of the document in that home."""
    monkeypatch.chdir(installation.home)
    monkeypatch.setenv("PATH", installation.path)

    def run_line(line: str) -> Ended:
        program, *words = shlex.split(line.replace(FOLDER, shlex.quote(str(installation.folder))))
        assert program == "vcp"
        return command(capsys, *words)

    return run_line


def test_the_first_steps_lead_where_they_say(installation: Installation, vcp: Run) -> None:
    check, call, print_config = lines(part("First steps"))
    looked = vcp(check)
    assert looked.code == 0
    assert "list_directory" in looked.out
    called = vcp(call)
    assert called.code == 0
    assert "poem.txt" in called.out
    (marked,) = blocks("text", part("First steps"))
    assert "poem.txt" in installation.post("/v1/human/tool", content=installation.here(marked).encode()).text
    assert "`{{VCPfiles}}`" in part("First steps")
    messages = [{"role": "system", "content": "{{VCPfiles}}"}, {"role": "user", "content": "show prompt"}]
    answer = installation.post("/v1/chat/completions", json={"model": "vcp-demo", "messages": messages}).json()
    assert "What read_text_file does" in answer["choices"][0]["message"]["content"]
    assert "vcp" in json.loads(vcp(print_config).out)["mcpServers"]


def test_a_client_with_the_printed_address_and_the_key_uses_the_tools(installation: Installation) -> None:
    (block,) = [block for block in blocks("json") if "<Key>" in block]
    entry = json.loads(installation.here(block).replace("<Key>", installation.server.key))["mcpServers"]["vcp"]

    async def main() -> None:
        async with (
            httpx2.AsyncClient(headers=entry["headers"], timeout=60, trust_env=False) as http,
            Client(streamable_http_client(entry["url"], http_client=http)) as client,
        ):
            assert "files.list_directory" in [tool.name for tool in (await client.list_tools()).tools]
            result = await client.call_tool("files.read_text_file", {"path": "poem.txt"})
            assert result.content[0].text == "roses are red"

    run(main())


def test_the_printed_configurations_are_those_of_the_table_of_programs(vcp: Run) -> None:
    for line in lines(part("A client that starts us: `vcp mcp`")):
        (entry,) = json.loads(vcp(line).out)["mcpServers"].values()
        assert ("url" in entry) is ("--http" in line)
    table = part("Your tools in another program").partition("| Program |")[2]
    assert set(re.findall(r"^\| [^|]+ \| `(\w+)` \|", table, re.MULTILINE)) == {"claude", "cursor", "cherry"}


def test_changed_tools_are_shown_and_accepted_as_it_is_printed(installation: Installation, vcp: Run) -> None:
    show, accept = lines(part("Tools that have changed"))
    words = installation.home / "words"
    words.write_text("Sends your files away", encoding="utf-8")
    try:
        shown = vcp(show)
        assert shown.code == 0
        assert "+ " in shown.out and "Sends your files away" in shown.out and "What list_directory does" in shown.out
        assert vcp(accept).code == 0
        assert "Sends your files away" not in vcp(show).out.partition("read_text_file - ")[2].partition("\n")[2]
    finally:
        words.unlink()


def test_the_script_for_the_openapi_door_gets_its_answer(installation: Installation) -> None:
    (block,) = blocks("sh", part("OpenAPI"))
    key, curl = block.splitlines()
    words = shlex.split(installation.here(curl).replace("$KEY", installation.server.key))
    assert key == "KEY=$(cat .vcp/server.key)"
    assert words[:2] == ["curl", "-s"]
    named = dict(zip(words[3::2], words[4::2], strict=True))
    header = dict([named["-H"].split(": ")])
    assert "42" in httpx.post(words[2], content=named["-d"], headers=header, timeout=60, trust_env=False).text


def test_a_few_plugins_alone_are_started_with_the_words_that_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That such a server works is proven in ``tests/cli/test_mcp_alone.py``; here its command line is taken."""
    monkeypatch.chdir(tmp_path)
    (line,) = lines(part("A few plugins alone: `vcp mcp --only`"))
    words = [str(tmp_path / "books") if word == "~/books" else word for word in shlex.split(line)[1:]]
    (entry,) = json.loads(command(capsys, *words, "--print-config", "cursor").out)["mcpServers"].values()
    assert set(words) - {"SciCalculator,DailyNote"} <= set(entry["args"])
    assert {f"{name}/plugin-manifest.json" for name in ("SciCalculator", "DailyNote")} <= {
        path.relative_to(ROOT / "Plugin").as_posix() for path in ROOT.glob("Plugin/*/plugin-manifest.json")
    }


def test_signing_in_and_out_is_written_as_it_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sign-in itself is proven in ``tests/cli/test_mcp_sign_in.py``; here nobody listens at the address."""
    monkeypatch.chdir(tmp_path)
    (entry,) = blocks("json", part("Signing in"))
    (tmp_path / "mcp_servers.json").write_text(entry.replace("https://calendar.example", "http://127.0.0.1:9"))
    sign_in, sign_out = lines(part("Signing in"))
    assert "cannot be reached" in command(capsys, *shlex.split(sign_in)[1:]).err
    gone = command(capsys, *shlex.split(sign_out)[1:])
    assert (gone.code, "nobody was signed in" in gone.out) == (0, True)


def test_no_command_is_left_out_here() -> None:
    told = [line for line in TEXT.splitlines() if line.startswith("vcp ")]
    assert len(told) == len(lines(TEXT)) == 10
    assert len(blocks("sh")) == 8


def test_every_file_of_servers_is_read_without_a_complaint() -> None:
    servers = [block for block in blocks("json") if "mcpServers" in block]
    assert len(servers) == 6
    entries: dict[str, ServerEntry] = {}
    for block in servers:
        further = frozenset({"expose"} if '"expose"' in block else ())
        table, problems = read_servers(block.encode(), SECRETS, further=further)
        assert problems == ()
        entries |= table.entries
    assert entries["search"].headers == {"Authorization": "Bearer secret"}
    assert entries["files"].command == "npx"
    others = [block for block in blocks("json") if "mcpServers" not in block]
    assert [read_groups(block.encode())[1] for block in others] == [()]


def test_the_servers_file_of_the_document_is_moved_behind_the_proxy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "client.json"
    file.write_text(FIRST_SERVERS, encoding="utf-8")
    assert "`vcp modular migrate FILE`" in TEXT
    assert command(capsys, "modular", "migrate", file, "--yes").code == 0
    assert "files" in json.loads((tmp_path / "modular-mcp.json").read_text(encoding="utf-8"))["mcpServers"]


def test_the_settings_are_taken_as_they_are_printed(tmp_path: Path) -> None:
    (tmp_path / "config.env").write_text("".join(blocks("ini")), encoding="utf-8")
    config = load(tmp_path, {})
    assert config.problems == ()
    assert config.settings.mcp_oauth_scopes == ("vcp",)
    assert config.environ["SEARCH_TOKEN"] == "the-key-of-that-service"


def test_the_table_of_dialects_names_all_that_is_understood() -> None:
    text = part("Files of other programs")
    named = set(re.findall(r"`([^`]+)`", text))
    assert set(CONTAINERS) <= named
    assert {
        alias for key, aliases in ALIASES.items() for alias in aliases if alias != key and key != "enabled"
    } <= named
    kinds = {re.sub(r"[-_ ]", "", word).lower() for word in named}
    assert set(KINDS) - {"sse"} <= kinds
    assert LONG_SECONDS == 3600
    assert "more than an hour" in text


def test_every_key_of_an_entry_is_in_the_table_of_keys() -> None:
    table = part("Servers whose tools we use").partition("| Key |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`(\w+)`", table))
    ours = {aliases[0] for key, aliases in ALIASES.items() if key not in ("enabled", "allow", "deny", "timeoutMs")}
    assert sorted(ours - named) == []


def test_the_errors_are_told_in_the_words_of_the_program() -> None:
    """Each text of the table stands in the code as it does here; ``…`` is what differs each time."""
    code = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("app/**/*.py"))
    code = re.sub(r'"\s*\n\s*f?"', "", code + Path(sdk.__file__).read_text(encoding="utf-8"))
    rows = re.findall(r"^\| (.+?) \| .+ \|$", part("When something does not work"), re.MULTILINE)[2:]
    texts = [text for row in rows for text in re.findall(r"`([^`]+)`", row)]
    assert len(texts) >= 25
    for text in texts:
        said = re.sub(r"\d+\)?$|text/html$", "…", text)
        pattern = r"[^\n]{0,60}?".join(re.escape(piece.strip()) for piece in said.split("…"))
        assert re.search(pattern, code), text


def test_the_readme_shows_the_same_server_and_the_same_commands() -> None:
    for name in ("README.md", "README.zh-CN.md"):
        readme = (ROOT / name).read_text(encoding="utf-8")
        assert FIRST_SERVERS in blocks("json", readme)
        for line in lines(part("First steps")):
            if line.startswith("vcp mcp"):
                assert f".venv/bin/{line}\n" in blocks("sh", readme)
