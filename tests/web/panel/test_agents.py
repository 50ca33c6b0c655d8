"""The pages of agents and variables: trees, editors, names, trash, previews; hostile values; both languages."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from urllib.parse import quote, urlencode

from tests.server import run
from tests.web.admin.writing import Writer
from tests.web.asgi import Answered

EN, ZH = ("accept-language", "en"), ("accept-language", "zh-CN")
FORM = ("content-type", "application/x-www-form-urlencoded")
HOSTILE = "<img src=x onerror=alert(1)>"


async def posted(admin: Writer, path: str, /, **fields: str) -> Answered:
    headers = (FORM, ("hx-request", "true"))
    return await admin.ask("POST", f"/AdminPanel/{path}", *headers, data=urlencode(fields).encode())


async def page(admin: Writer, path: str, language: tuple[str, str] = EN) -> str:
    answer = await admin.get(f"/AdminPanel/{path}", language)
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"].startswith("text/html")
    text = answer.body.decode()
    assert "style=" not in text
    assert " onclick=" not in text
    return text


def test_pages_speak_both_languages_and_stand_in_the_navigation(tmp_path: Path) -> None:
    admin = Writer(tmp_path)

    async def main() -> None:
        for path, english, chinese in (
            ("agents", "Agents", "文件"),
            ("agents/names", "Add a name", "添加名称"),
            ("agents/trash", "The trash is empty", "回收站是空的"),
            ("variables", "Variables", "变量"),
            ("variables/list", "Change in the configuration", "在配置中修改"),
        ):
            assert english in await page(admin, path)
            assert chinese in await page(admin, path, ZH)
        text = await page(admin, "agents")
        assert 'href="/AdminPanel/agents" aria-current="page"' in text
        assert 'href="/AdminPanel/variables"' in text

    run(main())


def test_a_file_is_shown_with_its_names_and_its_editor(tmp_path: Path) -> None:
    admin = Writer(tmp_path)
    admin.write("agent_map.json", '{"小克": "团队/小克.md"}')
    admin.write("Agent/团队/小克.md", f"</textarea>{HOSTILE}")
    admin.write(f"Agent/{HOSTILE.replace('/', '')}.txt", "x")

    async def main() -> None:
        text = await page(admin, "agents?file=" + quote("团队/小克.md"))
        assert HOSTILE not in text
        assert "</textarea>&lt;" not in text
        assert "&lt;/textarea&gt;&lt;img src=x" in text
        assert 'data-save="/admin_api/agents/%E5%9B%A2%E9%98%9F%2F%E5%B0%8F%E5%85%8B.md"' in text
        assert 'data-kind="info">小克<' in text
        missing = await admin.get("/AdminPanel/agents?file=no.txt", EN)
        assert missing.status == 404
        assert "there is no file no.txt" in missing.body.decode()
        for path in ("../config.env", "..%2F..%2Fx.txt", quote('"><script>alert(1)</script>')):
            answer = await admin.get(f"/AdminPanel/agents?file={path}", EN)
            assert answer.status in (400, 404)
            assert "<script>alert" not in answer.body.decode()

    run(main())


def test_files_are_made_renamed_deleted_and_brought_back(tmp_path: Path) -> None:
    admin = Writer(tmp_path)
    admin.write("agent_map.json", '{"n": "a/n.txt"}')

    async def main() -> None:
        made = await posted(admin, "agents/new", path="a/n")
        assert (made.status, made.headers["hx-redirect"]) == (204, "/AdminPanel/agents?file=a/n.txt")
        again = await posted(admin, "agents/new", path="a/n.txt")
        assert (again.status, again.headers["hx-retarget"]) == (409, "#notices")
        renamed = await posted(admin, "agents/rename", path="a/n.txt", to="b/新.txt")
        assert renamed.headers["hx-redirect"] == "/AdminPanel/agents?file=b/%E6%96%B0.txt"
        assert json.loads((tmp_path / "agent_map.json").read_text("utf-8")) == {"n": "b/新.txt"}
        gone = await posted(admin, "agents/delete", path="b/新.txt")
        query = gone.headers["hx-redirect"].partition("?")[2]
        assert "Undo" in await page(admin, f"agents?{query}")
        assert "b/新.txt" in await page(admin, "agents/trash")
        back = await posted(admin, "agents/restore", trash=query.removeprefix("deleted="))
        assert back.headers["hx-redirect"] == renamed.headers["hx-redirect"]
        assert (tmp_path / "Agent/b/新.txt").is_file()
        for bad in ("", "../x.txt", "x.exe", "a\0.txt"):
            assert (await posted(admin, "agents/new", path=bad)).status == 400
        assert (await posted(admin, "agents/delete", path="no.txt")).status == 404
        assert "Undo" not in await page(admin, "agents?deleted=" + quote('"><script>'))

    run(main())


def test_names_tell_what_is_missing_and_what_stands_twice(tmp_path: Path) -> None:
    admin = Writer(tmp_path)
    admin.write("Agent/Nova.txt", "x")
    admin.write("agent_map.json", '{"//": "note", "Nova": "Nova.txt", "x": "gone.txt", "Nova": "Nova.txt"}')

    async def main() -> None:
        text = await page(admin, "agents/names")
        assert "Names that stand twice; only the last counts: Nova" in text.replace("&#39;", "'")
        rows = json.loads(re.search(r'id="agent-rows">(.*?)</script>', text, re.S)[1])  # type: ignore[index]
        assert [(row["alias"], row["found"]) for row in rows] == [("Nova", True), ("x", False), ("Nova", True)]
        admin.write("agent_map.json", "{half")
        answer = await admin.get("/AdminPanel/agents/names", EN)
        assert answer.status == 400
        assert "agent_map.json is no usable JSON object" in answer.body.decode()
        assert "data-record-save" not in answer.body.decode()

    run(main())


def test_thousands_of_names_make_a_small_page(tmp_path: Path) -> None:
    admin = Writer(tmp_path)
    admin.write(
        "agent_map.json", json.dumps({f"agent {number}": f"folder/agent {number}.txt" for number in range(3000)})
    )
    admin.write("Agent/</script><script>alert(1).txt".replace("</script>", "<"), "x")

    async def main() -> None:
        assert len((await page(admin, "agents/names")).encode()) < 300_000

    run(main())


def test_variables_are_listed_with_their_files_and_what_is_wrong(tmp_path: Path) -> None:
    lines = ("VarA=text " + HOSTILE, "VarFile=r.txt", "VarGone=gone.txt", "VarEmpty=", "SarModel1=m1", "SarPrompt1=s")
    admin = Writer(tmp_path, *lines)
    admin.write("TVStxt/r.txt", "rules")

    async def main() -> None:
        text = await page(admin, "variables/list")
        assert HOSTILE not in text
        assert "{{VarA}}" in text
        assert 'href="/AdminPanel/variables?file=r.txt"' in text
        assert text.count(">no such file<") == 1
        assert text.count(">empty<") == 1
        assert ">m1<" in text
        assert "{{VarA}}" not in await page(admin, "variables/list?q=VarFile")
        assert 'data-kind="info">VarFile<' in await page(admin, "variables?file=r.txt")

    run(main())


def test_a_preview_is_coloured_by_source_and_escaped(tmp_path: Path) -> None:
    admin = Writer(tmp_path, "VarHome=home")
    admin.write("agent_map.json", '{"Nova": "Nova.txt"}')
    admin.write("Agent/Nova.txt", f"I am Nova {HOSTILE}")

    async def main() -> None:
        body = {"text": "{{Nova}} {{VarHome}} [[小克日记本]] {{<b>}}", "model": "m", "role": "system"}
        answer = await admin.post("/AdminPanel/prompts/preview", body, EN, ("hx-request", "true"))
        assert answer.status == 200
        text = answer.body.decode()
        assert HOSTILE not in text
        assert "{{<b>}}" not in text
        assert 'class="piece piece-1" title="agent:Nova">I am Nova &lt;img' in text
        assert 'href="/AdminPanel/agents?file=Nova.txt"' in text
        assert "Recall now" in text
        assert 'class="piece-later" title="filled by recall in a chat">[[小克日记本]]' in text
        assert 'class="piece-unknown" title="nothing fills it">{{&lt;b&gt;}}' in text
        user = await admin.post("/AdminPanel/prompts/preview", body | {"role": "user"}, EN)
        assert "In user messages only a few placeholders are expanded" in user.body.decode()
        for bad in ({}, {"text": 1}, b"{", {"text": "x" * 1_000_001}):
            failed = await admin.post("/AdminPanel/prompts/preview", bad, ("hx-request", "true"))
            assert (failed.status, failed.headers["hx-retarget"]) == (400, "#notices")

    run(main())


def test_recall_now_answers_declarations_in_the_preview(tmp_path: Path) -> None:
    """Recall off leaves them as they are written: nothing else of a request happens either way."""
    admin = Writer(tmp_path, "MemoryEmbedder=hashing")
    admin.write("dailynote/小克/2026-01-01.txt", "河边散步")

    async def main() -> None:
        body = {"text": "<<小克日记本>>", "recall": True}
        text = (await admin.post("/AdminPanel/prompts/preview", body, EN)).body.decode()
        assert "Recall now" not in text
        assert "piece-later" not in text

    run(main())


def test_placeholders_are_found_by_name_and_by_what_they_are(tmp_path: Path) -> None:
    admin = Writer(tmp_path, "VarHome=home")

    async def main() -> None:
        text = await page(admin, "prompts/placeholders?q=varhome")
        assert 'data-insert="{{VarHome}}"' in text
        assert "{{Date}}" not in text
        assert "{{Date}}" in await page(admin, "prompts/placeholders?q=" + quote("日期"), ZH)
        assert "No such placeholder" in await page(admin, "prompts/placeholders?q=zzzz")

    run(main())


def test_thousands_of_files_make_a_small_page_quickly(tmp_path: Path) -> None:
    """No page is over 300 KB; the filter finds what is not shown."""
    admin = Writer(tmp_path)
    for number in range(3000):
        path = tmp_path / "Agent" / f"folder{number % 50}" / f"agent {number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    async def main() -> None:
        started = time.process_time()
        text = await page(admin, "agents")
        used = time.process_time() - started
        assert len(text.encode()) < 300_000
        assert used < 3
        assert "Only 1000 are shown" in text
        assert "agent 2999.txt" in await page(admin, "agents?q=2999")

    run(main())


def test_the_search_of_the_panel_finds_agents_variables_and_files(tmp_path: Path) -> None:
    admin = Writer(tmp_path, "VarSeaside=x")
    admin.write("agent_map.json", '{"Seagull": "birds/gull.txt"}')
    admin.write("Agent/birds/gull.txt", "x")
    admin.write("Plugin/VCPTavern/presets/seastory.json", "{}")
    admin.write("ToolConfigs/seatools.json", "{}")

    async def main() -> None:
        text = await page(admin, "search?q=sea")
        for address in ("agents?file=birds/gull.txt", "variables/list?q=VarSeaside", "tavern?preset=seastory"):
            assert f"/AdminPanel/{address}" in text, address
        assert "tool-lists?config=seatools" in text
        assert "agents?file=birds/gull.txt" in await page(admin, "search?q=gull")

    run(main())
