"""What all pages of the panel share (vcp-core 8.1; D85; P72)."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import httpx
import pytest
from jinja2 import Environment

from app.observe.action_log import ACTIONS_FILE, ActionLog
from app.web.panel.frame import TEMPLATES
from app.web.panel.language import in_language
from app.web.panel.login import inside
from app.web.panel.markdown import Renderer
from app.web.panel.news import MAX_STREAMS
from app.web.panel.static import FOLDER
from tests.plugins.modules import write_module
from tests.server import run
from tests.waiting import until
from tests.web.panel.visitor import HOSTILE, NAME, PASSWORD, visiting


def test_d85_who_is_not_logged_in_is_led_to_the_login_page_and_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with visiting(tmp_path, logged_in=False) as visitor:
            answer = await visitor.client.get("/AdminPanel/actions", headers={"accept": "text/html"})
            assert answer.status_code == 303
            assert answer.headers["location"] == "/AdminPanel/login?next=%2FAdminPanel%2Factions"
            page = await visitor.page("/login?next=%2FAdminPanel%2Factions")
            assert 'value="/AdminPanel/actions"' in page and "Log in to the panel" in page
            piece = await visitor.client.get("/AdminPanel/search?q=x", headers={"hx-request": "true"})
            assert piece.status_code == 401 and piece.headers["hx-redirect"] == "/AdminPanel/login"
            own = await visitor.api("GET", "/dailynotes/folders")
            assert own.status_code == 401 and "www-authenticate" not in own.headers
            other = await visitor.api("GET", "/dailynotes/folders", **{"sec-fetch-site": "none"})
            assert other.status_code == 401 and other.headers["www-authenticate"].startswith("Basic")

    run(main())


def test_a_login_opens_pages_and_routes_until_logout(tmp_path: Path) -> None:
    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            cookie = next(iter(visitor.client.cookies.jar))
            assert cookie.name == f"vcp_admin_{visitor.server.services.port}"
            assert "Admin actions" in await visitor.page("/actions")
            assert (await visitor.api("GET", "/dailynotes/folders")).status_code == 200
            token = cookie.value
            assert token and token not in (tmp_path / ".vcp/panel_sessions.json").read_text(encoding="utf-8")
            assert (tmp_path / ".vcp/panel_sessions.json").stat().st_mode & 0o777 == 0o600
            answer = await visitor.post("/logout", {}, htmx=False)
            assert answer.status_code == 303 and answer.headers["location"] == "/AdminPanel/login"
            visitor.client.cookies.set(cookie.name, token)
            again = await visitor.client.get("/admin_api/dailynotes/folders")
            assert again.status_code == 401

    run(main())


@pytest.mark.parametrize(("body", "status"), [(b"\xff\xfe", 400), (b"x" * 3_000_000, 413), (b"&" * 9, 400)])
def test_who_is_not_logged_in_sees_no_navigation_whatever_they_send(tmp_path: Path, body: bytes, status: int) -> None:
    async def main() -> None:
        async with visiting(tmp_path, logged_in=False) as visitor:
            form = {"content-type": "application/x-www-form-urlencoded", "accept-language": "en"}
            answer = await visitor.client.post("/AdminPanel/login", content=body, headers=form)
            assert answer.status_code == status and "could not be read" in answer.text
            assert "<nav" not in answer.text and "/AdminPanel/actions" not in answer.text
            long = await visitor.post("/login", {"username": "a" * 100_000, "password": "x"}, htmx=False)
            assert long.status_code == 401 and len(long.text) < 10_000

    run(main())


def test_pages_that_come_at_once_get_no_more_streams_of_news_than_the_limit(tmp_path: Path) -> None:
    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            at_once = [visitor.client.build_request("GET", "/AdminPanel/news") for _ in range(MAX_STREAMS + 10)]
            answers = await asyncio.gather(*(visitor.client.send(one, stream=True) for one in at_once))
            first = [await anext(answer.aiter_bytes(), b"") for answer in answers if answer.status_code == 200]
            assert sum(piece.startswith(b"event: open") for piece in first) == MAX_STREAMS
            for answer in answers:
                await answer.aclose()

    run(main())


def test_nobody_fills_the_record_of_actions_from_outside(tmp_path: Path) -> None:
    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            async with httpx.AsyncClient(base_url=visitor.server.url) as outside:
                for _ in range(3):
                    assert (await outside.post("/admin_api/config/main", json={})).status_code == 401
                for wrong in range(7):
                    answer = await outside.post("/AdminPanel/login", data={"username": "x", "password": "y"})
                    assert answer.status_code == (401 if wrong < 5 else 429)
            assert (await visitor.api("POST", "/config/main", {})).status_code == 400
            noted = ActionLog(tmp_path)
            while not any(one.path == "/admin_api/config/main" for one in noted.last(100)):
                await asyncio.sleep(0.01)
            assert sorted(one.status for one in noted.last(100)) == [303, 400, *[401] * 5]

    run(main())


@pytest.mark.parametrize("at", ["1e18", "-1e14", "NaN", "1" + "0" * 400])
def test_a_moment_beyond_the_calendar_is_a_dash_and_the_page_is_there(tmp_path: Path, at: str) -> None:
    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            line = f'{{"at": {at}, "address": "a", "via": "", "method": "POST", "path": "/odd", "status": 303}}\n'
            with (tmp_path / ACTIONS_FILE).open("a", encoding="utf-8") as file:
                file.write(line)
            page = await visitor.page("/actions")
            assert "/odd" in page and "<td>–</td>" in page

    run(main())


def test_five_wrong_passwords_at_the_login_page_block_it_but_not_a_login_that_holds(tmp_path: Path) -> None:
    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            for _ in range(5):
                answer = await visitor.post("/login", {"username": NAME, "password": "no"}, htmx=False)
                assert answer.status_code == 401 and "wrong" in answer.text
            answer = await visitor.post("/login", {"username": NAME, "password": PASSWORD}, htmx=False)
            assert answer.status_code == 429 and int(answer.headers["retry-after"]) > 60
            assert "Admin actions" in await visitor.page("/actions")

    run(main())


@pytest.mark.parametrize(
    "headers", [{"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}, {"origin": "https://evil.example"}]
)
def test_no_other_site_can_log_in_log_out_or_change_anything(tmp_path: Path, headers: dict[str, str]) -> None:
    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            if "origin" in headers:
                del visitor.client.headers["sec-fetch-site"]
            for path in ("/login", "/logout", "/preferences"):
                answer = await visitor.post(path, {"username": NAME, "password": PASSWORD}, htmx=False, **headers)
                assert answer.status_code == 403 and "set-cookie" not in answer.headers
            assert (await visitor.api("POST", "/rag-tags", {}, **headers)).status_code == 403

    run(main())


@pytest.mark.parametrize(
    "address",
    [
        *("", "https://evil.example/", "//evil.example/", "/\\evil.example", "/AdminPanel/\\..", "javascript:alert(1)"),
        *(
            "/AdminPanelX",
            "/v1/models",
            "/AdminPanel/login",
            "/AdminPanel/\r\nSet-Cookie: x=1",
            "/AdminPanel/" + "x" * 3000,
        ),
    ],
)
def test_after_a_login_nobody_is_sent_out_of_the_panel(address: str) -> None:
    assert inside(address) == "/AdminPanel/"


def test_every_page_forbids_scripts_that_are_not_ours_and_is_not_kept(tmp_path: Path) -> None:
    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            for path, status in (("/actions", 200), ("/login", 200), ("/search?q=x", 200), ("/plugin-pages/a/b", 404)):
                answer = await visitor.client.get(f"/AdminPanel{path}")
                policy = answer.headers["content-security-policy"]
                assert answer.status_code == status
                assert "default-src 'none'" in policy and "script-src 'self';" in policy and "unsafe" not in policy
                assert answer.headers["cache-control"] == "no-store" and answer.headers["x-frame-options"] == "DENY"
                assert not [name for name in answer.headers if name.startswith("access-control")]

    run(main())


def test_templates_hold_no_inline_script_style_or_handler() -> None:
    wrong = re.compile(
        r"""<script(?![^>]*\bsrc=)(?![^>]*type="application/json")|<style|\sstyle=|\son[a-z]+=|hx-on|javascript:"""
    )
    for path in TEMPLATES.rglob("*.html"):
        found = wrong.search(path.read_text(encoding="utf-8"))
        assert not found, f"{path.name}: {found and found[0]}"


def test_templates_show_no_text_in_one_language_alone() -> None:
    chinese = re.compile(r"[\u4e00-\u9fff]")
    for path in TEMPLATES.rglob("*.html"):
        pieces = Environment().lex(path.read_text(encoding="utf-8"))
        bare = "".join(text for _, kind, text in pieces if kind == "data").replace(">中文<", "><")
        assert not chinese.search(bare), f"{path.name} shows Chinese that does not go through t()"


def test_the_language_is_the_browsers_until_a_person_chooses(tmp_path: Path) -> None:
    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            for asked, shown in (
                ("zh-CN,en;q=0.5", "操作记录"),
                ("fr,en;q=0.8,zh;q=0.3", "Admin actions"),
                ("de", "操作记录"),
                ("en;q=x", "操作记录"),
            ):
                assert f"<h1>{shown}</h1>" in await visitor.page("/actions", language=asked)
            fields = {"language": "zh", "theme": "dark", "next": "/AdminPanel/actions"}
            answer = await visitor.post("/preferences", fields, htmx=False)
            assert answer.status_code == 303 and answer.headers["location"] == "/AdminPanel/actions"
            page = await visitor.page("/actions", language="en")
            assert "<h1>操作记录</h1>" in page and 'data-theme="dark"' in page
            await visitor.post("/preferences", {"language": HOSTILE, "theme": "<b>"}, htmx=False)
            assert 'data-theme="dark"' in await visitor.page("/actions")

    run(main())


def test_what_administrators_change_is_noted_without_its_content(tmp_path: Path) -> None:
    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            await visitor.api("POST", "/rag-tags", {"secret-name": {"tags": []}})
            await visitor.client.post("/admin_api/<script>", json={})
            page = await visitor.page("/actions?q=post")
            assert "/admin_api/rag-tags" in page and "/AdminPanel/login" in page and "secret-name" not in page
            assert "<script>" not in page.replace("<script ", "") and PASSWORD not in page
            assert "secret-name" not in (tmp_path / ".vcp/admin_actions.jsonl").read_text(encoding="utf-8")

    run(main())


def test_the_search_finds_pages_in_both_languages(tmp_path: Path) -> None:
    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            for words in ("操作", "ACTIONS", "audit"):
                assert 'href="/AdminPanel/actions"' in await visitor.page(f"/search?q={words}")
            assert "Nothing found" in await visitor.page(f"/search?q={HOSTILE}")
            assert (await visitor.page("/search?q=")).strip() == ""

    run(main())


def test_an_address_that_nothing_has_is_told_by_a_page_to_people_and_as_json_to_programs(tmp_path: Path) -> None:
    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            page = await visitor.page(f"/nothing/{HOSTILE}", status=404)
            assert "there is no such page" in page and "Back to the dashboard" in page and "<img src=x" not in page
            chinese = await visitor.page("/nothing", language="zh", status=404)
            assert "没有这个页面" in chinese and "no such page" not in chinese
            assert "there is no such page" in await visitor.page("/logout", status=404), "a form's address in a tab"
            answer = await visitor.client.get("/AdminPanel/nothing")
            assert answer.status_code == 404 and set(answer.json()) == {"error"}
            answer = await visitor.client.get("/admin_api/nothing", headers={"accept": "text/html"})
            assert answer.status_code == 404 and set(answer.json()) == {"error"}

    run(main())


@pytest.mark.parametrize(
    ("message", "chinese", "english"),
    [
        ("没有这个页面 / there is no such page", "没有这个页面", "there is no such page"),
        ("磁盘操作失败 / the disk refused: full", None, "the disk refused: full"),
        ("a.json: 没有 / is not there", "a.json: 没有", None),
        ("第 1 行 / line 1: 没有 / nothing", None, None),
        ("没有文件 a / b / there is no file a / b", None, None),
        ("没有 x / 没有 y", None, None),
        ("only english / and more", None, None),
        ("", None, None),
    ],
)
def test_what_went_wrong_is_told_in_one_language_where_nothing_gets_lost(
    message: str, chinese: str | None, english: str | None
) -> None:
    """None: all of it stays."""
    assert in_language(message, "zh") == (message if chinese is None else chinese)
    assert in_language(message, "en") == (message if english is None else english)


def test_assets_are_open_versioned_and_with_their_licences(tmp_path: Path) -> None:
    async def main() -> None:
        async with visiting(tmp_path, logged_in=False) as visitor:
            page = await visitor.page("/login")
            addresses = re.findall(r'"(/AdminPanel/static/[^"]+)"', page)
            assert any(address.endswith("/panel.css") for address in addresses)
            for address in addresses:
                answer = await visitor.client.get(address)
                assert answer.status_code == 200 and "immutable" in answer.headers["cache-control"]
                other = await visitor.client.get(re.sub(r"static/\w+/", "static/other/", address))
                assert other.headers["cache-control"] == "no-store"
            for wrong in (
                "/AdminPanel/static/x/../frame.py",
                "/AdminPanel/static/x/..%2fframe.py",
                "/AdminPanel/static/x/none",
            ):
                assert (await visitor.client.get(wrong)).status_code in (401, 404)

    run(main())
    licences = (FOLDER / "vendor/LICENSES.txt").read_text(encoding="utf-8")
    for name in ("htmx.org 2.", "uplot", "sortablejs", "@codemirror/view"):
        assert f"\n{name}" in licences


@pytest.mark.parametrize(
    ("text", "never"),
    [
        (HOSTILE, "<img"),
        ("<script>alert(1)</script>", "<script"),
        ("[x](javascript:alert(1))", 'javascript:alert(1)"'),
        ("[x](JaVaScRiPt&#58;alert(1))", 'href="java'),
        ("![x](https://evil.example/track.png)", "<img"),
        ("<a href='data:text/html,x'>x</a>", "<a href"),
        ("[x](data:text/html;base64,eA==)", 'href="data'),
        ("`</code><script>`", "<script"),
        ("| a |\n|---|\n| <svg onload=alert(1)> |", "<svg"),
        ('```x" onload="alert(1)\n```', 'onload="'),
    ],
)
def test_markdown_of_models_brings_no_script_no_picture_and_no_strange_link(text: str, never: str) -> None:
    assert never.lower() not in Renderer()(text).lower()


def test_markdown_shows_what_it_should_and_ends_on_what_is_nested_or_long() -> None:
    render = Renderer()
    assert "<strong>b</strong>" in render("**b**") and 'href="https://a.example"' in render("[a](https://a.example)")
    assert "<table>" in render("| a |\n|---|\n| b |") and "<pre>" in render("```\ncode\n```")
    assert render("# a\n\n##### b").count("<h3>a</h3>") == 1 and "<h6>b</h6>" in render("##### b")
    assert render(">" * 5000 + "x") and render("[" * 20_000) and render("*" * 100_000)
    assert render("<b>" * 100_000).startswith("<pre>&lt;b&gt;")


PAGE_PLUGIN = """
from app.extend import PageGroup, PanelPage, PluginPage

class Plugin:
    def pages(self):
        page = PanelPage("notes", PageGroup.TOOLS, "我的页面", "My page")
        return [PluginPage(page, self.content)]
    async def content(self, visit):
        if visit.query.get("fail"):
            raise ValueError("broken")
        return f"<p id=own>{visit.language} {visit.method} {visit.form.get('a', '')}</p>"

def create(context):
    return Plugin()
"""


def test_a_plugin_inside_the_server_adds_a_page(tmp_path: Path) -> None:
    write_module(tmp_path, "Pager", PAGE_PLUGIN)

    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            assert 'href="/AdminPanel/plugin-pages/Pager/notes"' in await visitor.page("/actions")
            page = await visitor.page("/plugin-pages/Pager/notes", language="zh")
            assert "<p id=own>zh GET </p>" in page and "<h1>我的页面" in page
            sent = await visitor.post("/plugin-pages/Pager/notes", {"a": "b"}, htmx=False)
            assert "<p id=own>en POST b</p>" in sent.text
            failed = await visitor.page("/plugin-pages/Pager/notes?fail=1", status=500)
            assert "Something went wrong" in failed and "Pager" in failed and "broken" not in failed
            assert "its plugin may be off" in await visitor.page("/plugin-pages/Pager/other", status=404)

    run(main())


@pytest.mark.parametrize("declared", ["None", "[1]", "[PluginPage(PanelPage('../x', PageGroup.TOOLS, 'a', 'b'), len)]"])
def test_a_plugin_with_a_page_that_is_none_is_left_out(tmp_path: Path, declared: str) -> None:
    write_module(tmp_path, "Pager", PAGE_PLUGIN.replace("[PluginPage(page, self.content)]", declared))

    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            assert "plugin-pages/Pager" not in await visitor.page("/actions")
            assert any("Pager" in problem for problem in visitor.server.services.in_process.problems())

    run(main())


def test_what_a_page_only_asks_is_not_noted_as_an_action(tmp_path: Path) -> None:
    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            notes = tmp_path / ".vcp" / "admin_actions.jsonl"
            assert (await visitor.post("/approvals-news", {})).status_code == 200
            assert (await visitor.post("/preferences", {"theme": "dark"}, htmx=False)).status_code == 303
            await until(lambda: notes.is_file() and "/preferences" in notes.read_text(encoding="utf-8"))
            assert "approvals-news" not in notes.read_text(encoding="utf-8")

    run(main())


def test_the_memory_index_has_one_name_in_the_navigation_and_on_its_page(tmp_path: Path) -> None:
    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            page = await visitor.page("/memory-index")
            assert page.count("Memory index</") >= 2 and ">Index</a>" not in page

    run(main())


@pytest.mark.parametrize(
    "text",
    [
        "![" * 99_000,
        "*a_ " * 45_000,
        "1. \n" * 45_000,
        "~~a" * 60_000,
        "|" + "a|" * 300 + "\n|" + "-|" * 300 + "\n" + "|\n" * 2_000,
    ],
    ids=["pictures", "emphasis", "lists", "struck", "table"],
)
def test_markdown_that_would_hold_the_server_up_is_shown_as_it_is(text: str) -> None:
    assert Renderer()(text).startswith("<pre>")


def test_a_long_note_of_a_person_is_still_markdown() -> None:
    text = "# Day\n\n" + "- *a* [b](https://x.example) `c`\n" * 300 + "\n| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 200
    shown = Renderer()(text)
    assert shown.startswith("<h3>") and shown.count("<tr>") == 201
