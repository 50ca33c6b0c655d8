"""What needs attention: each thing that can be wrong is told once, with its place, in both languages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from app.cli.findings import found_by_check
from app.extend import Reloaded
from app.services import Services
from app.services import attention as module
from app.services.attention import MAX_ITEMS, Attention, Kind, attention, in_both
from app.upstream.fleet import UpstreamStatus
from tests.plugins.modules import write_module
from tests.server import running, write_plugin
from tests.waiting import until
from tests.web.asgi import services_in


class Usage(NamedTuple):
    """What the system tells of a disk."""

    total: int
    free: int


def found_in(home: Path, *config: str, before: Callable[[Services], object] = lambda _: None) -> list[Attention]:
    async def main() -> list[Attention]:
        services = services_in(home, *config)
        before(services)
        return list(await attention(services))

    return asyncio.run(main())


def test_a_sound_server_needs_no_attention(tmp_path: Path) -> None:
    assert found_in(tmp_path) == []


def test_settings_that_cannot_be_used_and_plugins_that_lack_their_program_are_told(tmp_path: Path) -> None:
    folder = tmp_path / "Plugin" / "Broken"
    folder.mkdir(parents=True)
    (folder / "plugin-manifest.json").write_text("{", encoding="utf-8")
    write_plugin(tmp_path, "Lacking", "", entryPoint={"type": "python", "command": "no-such-program-anywhere main.py"})
    found = found_in(tmp_path, "MaxVCPLoopStream=many")
    assert {one.address for one in found} == {"config", "plugins"}
    text = "\n".join(one.english for one in found)
    assert "MaxVCPLoopStream" in text
    assert str(folder.name) in text
    assert [one.place for one in found if "no-such-program-anywhere" in one.english] == ["Lacking"]


def test_what_a_check_of_the_installation_finds_is_told_with_its_place(tmp_path: Path) -> None:
    """Placeholders that nobody provides, bad manifests: as ``vcp check`` tells them; notes of it are left out."""
    (tmp_path / "Agent").mkdir()
    (tmp_path / "Agent" / "Nova.txt").write_text("Hello {{VarNobody}}", encoding="utf-8")
    (tmp_path / "agent_map.json").write_text('{"Nova": "Nova.txt"}', encoding="utf-8")

    def checking(services: Services) -> None:
        services.overview.checked.check_with(lambda: found_by_check(tmp_path, {}))

    (one,) = [one for one in found_in(tmp_path, before=checking) if "VarNobody" in one.place]
    assert (one.kind, one.address) == (Kind.BAD, "agents")
    assert "Agent/Nova.txt:1:7" in one.place
    assert one.chinese != one.english


def test_a_file_that_a_reload_did_not_take_is_told_once(tmp_path: Path) -> None:
    def reloaded(services: Services) -> None:
        standing = str(services.config.problems[0])
        services.events.publish(Reloaded((), (standing, "config.env:9: the quote is not closed")))

    found = found_in(tmp_path, "MaxVCPLoopStream=many", before=reloaded)
    assert [one.kind for one in found] == [Kind.BAD, Kind.WARN]
    assert "quote is not closed" in found[0].english


def test_a_model_api_that_is_spared_is_told_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def resting(services: Services) -> None:
        status = UpstreamStatus("second", "host", 0, None, 3, 12.0, 5, 3)
        monkeypatch.setattr(services.upstream, "status", lambda: (status,))

    (one,) = found_in(tmp_path, before=resting)
    assert (one.place, "12 s" in one.english, "12 秒" in one.chinese) == ("second", True, True)


@pytest.mark.parametrize(
    ("disk", "kind"),
    [
        (Usage(10**12, 10**8), Kind.BAD),
        (Usage(10**12, 10**10), Kind.WARN),
        (Usage(10**12, 10**11), None),
    ],
)
def test_a_disk_that_is_nearly_full_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, disk: Usage, kind: Kind | None
) -> None:
    monkeypatch.setattr(module, "disk_usage", lambda _home: disk)
    assert [one.kind for one in found_in(tmp_path)] == ([kind] if kind else [])


def test_a_home_that_cannot_be_read_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def gone(_home: Path) -> Usage:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(module, "disk_usage", gone)
    (one,) = found_in(tmp_path)
    assert "Input/output error" in one.english


def test_notes_that_wait_long_for_the_index_and_addresses_that_are_refused_are_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def behind(services: Services) -> None:
        readings = {("waitingNotes",): 7.0, ("staleSeconds",): 1200.0}
        monkeypatch.setattr(services.memory, "readings", lambda: readings)
        services.overview.blocked = lambda: 3

    first, second = found_in(tmp_path, before=behind)
    assert (first.kind, first.address, "20 minutes" in first.english) == (Kind.WARN, "memory-index", True)
    assert (second.kind, second.address, "3 addresses" in second.english) == (Kind.INFO, "blocked", True)


def test_many_things_are_cut_and_the_worst_stand_in_front(tmp_path: Path) -> None:
    def checking(services: Services) -> None:
        many = [Attention(Kind.WARN, "警" * 9000, "w" * 9000, place=str(number)) for number in range(1000)]
        services.overview.checked.check_with(lambda: [*many, Attention(Kind.BAD, "坏", "bad")])

    found = found_in(tmp_path, before=checking)
    assert len(found) == MAX_ITEMS
    assert found[0].english == "bad"
    assert max(len(one.english) for one in found) < 1000


def test_a_text_in_two_languages_is_told_in_the_one_that_is_read() -> None:
    assert in_both("坏 / bad / worse") == ("坏", "bad / worse")
    assert in_both("only English") == ("only English", "only English")


def test_plugins_that_fail_and_calls_that_wait_are_told_by_a_running_server(tmp_path: Path) -> None:
    """Static plugins whose run failed, modules that cannot be loaded, MCP servers that fail, approvals."""

    async def main() -> None:
        write_module(tmp_path, "Bad", "raise ValueError('broken on purpose')")
        placeholders = {"systemPromptPlaceholders": [{"placeholder": "{{Never}}", "description": "x"}]}
        write_plugin(tmp_path, "Static", "raise SystemExit(3)", pluginType="static", capabilities=placeholders)
        write_plugin(tmp_path, "Asked", "print('{}')", capabilities={"invocationCommands": [{"command": "Asked"}]})
        rules = '{"enabled": true, "approvalList": ["Asked"], "timeoutMinutes": 5}'
        (tmp_path / "toolApprovalConfig.json").write_text(rules, encoding="utf-8")
        entry = '{"mcpServers": {"gone": {"command": "no-such-mcp-server-anywhere"}}}'
        (tmp_path / "mcp_servers.json").write_text(entry, encoding="utf-8")
        config = ("RunStaticPlugins=true", "MCPServers=true")
        async with running(tmp_path, "http://127.0.0.1:9", config=config) as server:
            services = server.services
            body = "<<<[TOOL_REQUEST]>>>\ntool_name:「始」Asked「末」\n<<<[END_TOOL_REQUEST]>>>"
            call = asyncio.create_task(
                server.client.post("/v1/human/tool", content=body, headers={"Content-Type": "text/plain"})
            )
            await until(lambda: services.approvals.pending())
            await until(lambda: any(state.last_error for state in services.statics.states()))
            places: dict[str, Attention] = {}
            began = time.monotonic()
            while not {"Bad", "Static", "Asked", "gone"} <= places.keys() and time.monotonic() - began < 20:
                places = {one.place: one for one in await attention(services)}
                await asyncio.sleep(0.05)
            assert places["Bad"].kind is Kind.BAD
            assert places["Static"].kind is Kind.WARN
            assert places["Asked"].address == "approvals"
            assert places["gone"].address == "mcp"
            for pending in services.approvals.pending():
                services.approvals.answer(pending.id, False, by="test")
            await call

    asyncio.run(main())
