"""The dashboard and what needs attention: pieces, both languages, hostile names, the code, the restart (D87)."""

from __future__ import annotations

import re
from pathlib import Path

from app.observe.machine import ProcessNow
from app.services.attention import Attention, Kind
from app.tools.auth_code import write_auth_code
from app.upstream.fleet import UpstreamStatus
from tests.server import run
from tests.web.panel.visitor import HOSTILE, Visitor, visiting


def check(visitor: Visitor, *found: Attention) -> None:
    """What a check of the installation finds."""
    visitor.server.services.overview.checked.check_with(lambda: list(found))


def test_the_dashboard_is_the_first_page_in_both_languages_with_and_without_the_last_slash(tmp_path: Path) -> None:
    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            english, chinese = await visitor.page("/"), await visitor.page("/", language="zh")
            assert "Chats in an hour" in english and "一小时内的对话" in chinese
            assert "What needs attention" in english and "需要处理" in chinese
            assert 'aria-current="page">Dashboard' in english
            assert "Dashboard" in await visitor.page("")
            assert not re.search(r'\sstyle="|\son\w+="', english)
            assert len(english.encode()) < 60_000

    run(main())


def test_its_pieces_tell_how_the_server_is_now(tmp_path: Path) -> None:
    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            now = await visitor.page("/dashboard/now")
            assert "Healthy" in now and "<html" not in now
            parts = await visitor.page("/dashboard/parts")
            assert "API_URL" in parts and "127.0.0.1:9" in parts
            assert "this server" in parts and "No client is connected" in parts

    run(main())


def test_names_that_others_choose_are_only_text(tmp_path: Path) -> None:
    """Upstreams, processes, placeholders in prompts, plugins: whatever is in them stays text."""

    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            services = visitor.server.services
            hostile = UpstreamStatus(HOSTILE, HOSTILE, 1, 2, 3, 4.0, 5, 6)
            services.upstream.status = lambda: (hostile,)  # type: ignore[method-assign]
            process = ProcessNow(1, HOSTILE, "sleeping", 0.0, 1, 0.0)
            services.overview.machine.processes = lambda: (process,) * 300  # type: ignore[method-assign]
            check(visitor, Attention(Kind.BAD, HOSTILE, HOSTILE, "actions", HOSTILE))
            for path in ("/", "/dashboard/parts", "/attention", "/attention?list=1"):
                page = await visitor.page(path)
                assert "<img" not in page.replace('<img src="/AdminPanel/static', "") and "<script>" not in page
                assert "&lt;img src=x" in page
            assert "250 further processes" in await visitor.page("/dashboard/parts")

    run(main())


def test_the_bell_counts_what_is_wrong_and_the_list_leads_to_pages_that_there_are(tmp_path: Path) -> None:
    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            check(visitor)
            assert "Nothing needs attention" in await visitor.page("/attention?count=1")
            assert "All is well" in await visitor.page("/attention?list=1")
            check(
                visitor,
                Attention(Kind.INFO, "知道就好", "good to know"),
                Attention(Kind.WARN, "小心", "careful", "no-such-page"),
                Attention(Kind.BAD, "坏了", "broken", "actions", "Agent/Nova.txt:1:7"),
            )
            visitor.server.services.overview.checked.outdated()
            bell = await visitor.page("/attention?count=1", language="zh")
            assert "2 件事需要处理" in bell and ">2<" in bell
            listed = await visitor.page("/attention?list=1")
            assert [listed.index(word) for word in ("broken", "careful", "good to know")] == sorted(
                listed.index(word) for word in ("broken", "careful", "good to know")
            )
            assert re.findall(r'href="([^"]+)"', listed) == ["/AdminPanel/actions"]
            assert "坏了" in await visitor.page("/attention", language="zh")

    run(main())


def test_the_code_is_not_in_the_page_until_it_is_asked_for(tmp_path: Path) -> None:
    """D84: a secret is shown when somebody wants to see it."""

    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            assert "no code yet" in await visitor.page("/dashboard/code")
            write_auth_code(tmp_path)
            code = visitor.server.services.auth_code()
            assert code and code not in await visitor.page("/")
            assert code in await visitor.page("/dashboard/code")

    run(main())


def test_the_restart_is_asked_for_once_and_told_by_page_and_script(tmp_path: Path) -> None:
    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            overview = visitor.server.services.overview
            refused = await visitor.post("/restart", {})
            assert refused.status_code == 503 and "vcp serve" in refused.text
            begun: list[bool] = []
            overview.restart.on_asked(lambda: begun.append(True))
            by_script = await visitor.post("/restart", {}, accept="application/json")
            assert by_script.json() == {"began": overview.began, "already": False}
            by_page = await visitor.post("/restart", {}, htmx=False)
            assert by_page.status_code == 200 and "The server restarts" in by_page.text
            assert begun == [True]
            state = await visitor.client.get("/AdminPanel/restart/state")
            assert state.json() == {"began": overview.began, "ready": True}
            other_site = await visitor.client.post("/AdminPanel/restart", headers={"sec-fetch-site": "cross-site"})
            assert other_site.status_code == 403

    run(main())


def test_a_machine_that_tells_nothing_leaves_a_page_with_dashes(tmp_path: Path) -> None:
    def silent() -> None:
        raise OSError("denied")

    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            machine = visitor.server.services.overview.machine
            machine.now = machine.processes = silent  # type: ignore[method-assign, assignment]
            assert "–" in await visitor.page("/")
            assert (await visitor.api("GET", "/system-monitor/system/resources")).status_code == 500
            assert (await visitor.api("GET", "/system-monitor/pm2/processes")).json()["success"] is False

    run(main())
