"""Pages of memory: notebooks, notes, tags and groups, explanations, the index (memory.md 1.7, 11.29, 11.31)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from urllib.parse import quote

import pytest

from app.config.edited_file import fingerprint
from app.extend import NotesChanged
from app.web.panel.memory_files import words_of
from app.web.panel.notebooks import note_address
from tests.server import run
from tests.waiting import until
from tests.web.panel.visitor import HOSTILE, visiting

BOOK = "小克"
NOTE = f"/notebooks/{quote(BOOK)}"


def write_notes(home: Path, *texts: str) -> None:
    folder = home / "dailynote" / BOOK
    folder.mkdir(parents=True)
    for number, text in enumerate(texts, 1):
        (folder / f"2026-11-2{number}.txt").write_text(text, encoding="utf-8")


def test_notebooks_are_listed_searched_and_hold_hostile_notes_as_text(tmp_path: Path) -> None:
    write_notes(tmp_path, f"[2026-11-21] - 小克\n西湖 {HOSTILE}", "other")

    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            assert f'href="/AdminPanel{NOTE}"' in await visitor.page("/notebooks")
            for page in (
                await visitor.page("/notebooks?q=西湖"),
                await visitor.page(NOTE),
                await visitor.page(f"{NOTE}/note/2026-11-21.txt"),
                await visitor.page("/search?q=西湖"),
            ):
                assert "2026-11-21.txt" in page and "<img src=x" not in page and "<script>alert" not in page
            assert "Nothing found" in await visitor.page(f"{NOTE}?q=nowhere")
            assert "日记本" in await visitor.page("/notebooks", language="zh")

    run(main())


@pytest.mark.parametrize("path", ["..%2f..%2fetc", "%2e%2e", "..%2fdailynote", "nobody", "a%00b"])
def test_nothing_outside_of_the_notebooks_is_shown(tmp_path: Path, path: str) -> None:
    write_notes(tmp_path, "x")

    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            for rest in ("", "/note/config.env", "/note/..%2f..%2fconfig.env"):
                answer = await visitor.client.get(f"/AdminPanel/notebooks/{path}{rest}")
                assert answer.status_code in (400, 403, 404) and "AdminPassword" not in answer.text

    run(main())


def test_two_people_at_one_note_the_second_is_told_and_sees_both(tmp_path: Path) -> None:
    write_notes(tmp_path, "old")

    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            page = await visitor.page(f"{NOTE}/note/2026-11-21.txt")
            version = fingerprint(b"old")
            assert f'data-fingerprint="{version}"' in page and "old" in page
            save = f"/dailynotes/note/{quote(BOOK)}/2026-11-21.txt"
            first = await visitor.api("POST", save, {"content": "hers", "expected": version})
            second = await visitor.api("POST", save, {"content": "his", "expected": version})
            assert (first.status_code, second.status_code) == (200, 409)
            assert second.json()["content"] == "hers" and second.json()["current"] == fingerprint(b"hers")
            assert (tmp_path / "dailynote" / BOOK / "2026-11-21.txt").read_text(encoding="utf-8") == "hers"

    run(main())


def test_notes_are_moved_deleted_and_brought_back(tmp_path: Path) -> None:
    write_notes(tmp_path, "one", "two", "three")
    folder = tmp_path / "dailynote" / BOOK

    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            told = await visitor.post(f"{NOTE}/notes", {"file": "2026-11-21.txt", "action": "move", "target": "公共"})
            assert "1 done" in told.text and (tmp_path / "dailynote/公共/2026-11-21.txt").read_text() == "one"
            told = await visitor.post(f"{NOTE}/notes", {"file": "2026-11-22.txt", "action": "delete"})
            assert "Undo" in told.text and not (folder / "2026-11-22.txt").exists()
            assert any(isinstance(event, NotesChanged) for event in visitor.server.events)
            trash = await visitor.page("/notebooks/trash")
            assert "2026-11-22.txt" in trash
            trash_id = trash.partition('name="trash" value="')[2].partition('"')[0]
            told = await visitor.post("/notebooks/trash", {"trash": trash_id})
            assert "1 are back" in told.text and (folder / "2026-11-22.txt").read_text() == "two"
            for fields in ({"action": "delete"}, {"file": "x.txt", "action": "burn"}, {"file": "x", "action": "move"}):
                assert (await visitor.post(f"{NOTE}/notes", fields)).status_code == 400
            missing = await visitor.post(f"{NOTE}/notes", {"file": "../../config.env", "action": "delete"})
            assert "1 not" in missing.text and (tmp_path / "config.env").exists()
            assert (await visitor.post("/notebooks/trash", {"trash": "../x"})).status_code == 404

    run(main())


def test_a_new_note_is_offered_and_an_empty_notebook_can_go(tmp_path: Path) -> None:
    (tmp_path / "dailynote/空").mkdir(parents=True)

    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            page = await visitor.page(f"/notebooks/{quote('空')}/new?file=想法")
            assert "想法.txt" in page and 'data-fingerprint=""' in page
            assert "This notebook is empty" in await visitor.page(f"/notebooks/{quote('空')}")
            gone = await visitor.post(f"/notebooks/{quote('空')}/remove", {}, htmx=False)
            assert gone.status_code == 303 and not (tmp_path / "dailynote/空").exists()

    run(main())


def test_tags_groups_and_chains_are_edited_by_form_and_as_text(tmp_path: Path) -> None:
    write_notes(tmp_path, "x")

    async def main() -> None:
        async with visiting(tmp_path) as visitor:

            def stored(name: str) -> dict[str, object]:
                found: dict[str, object] = json.loads(next(tmp_path.rglob(name)).read_text(encoding="utf-8"))
                return found

            fields = {"name": BOOK, "words": "西湖, 白鹭:1.5\n西湖", "threshold": "0", "expected": ""}
            assert (await visitor.post("/memory-files/tags/entry", fields)).headers["hx-refresh"] == "true"
            assert stored("rag_tags.json") == {BOOK: {"tags": ["西湖", "白鹭:1.5"], "threshold": 0}}
            conflict = await visitor.post("/memory-files/tags/entry", {**fields, "words": "lost"})
            assert conflict.status_code == 409 and "lost" not in json.dumps(stored("rag_tags.json"))
            await visitor.post(
                "/memory-files/groups/entry", {"name": HOSTILE, "words": "a，b", "weight": "2", "expected": ""}
            )
            assert stored("semantic_groups.edit.json")["groups"] == {HOSTILE: {"words": ["a", "b"], "weight": 2}}
            await visitor.post("/memory-files/chains/entry", {"name": "c", "words": "前思维簇\n反思簇", "expected": ""})
            assert stored("meta_thinking_chains.json") == {"chains": {"c": {"clusters": ["前思维簇", "反思簇"]}}}
            page = await visitor.page("/memory-files/groups")
            assert "<img src=x" not in page and "a, b" in page
            text = await visitor.page("/memory-files/tags?as=text")
            version = text.partition('data-fingerprint="')[2].partition('"')[0]
            address = "/AdminPanel/memory-files/tags/text"
            saved = await visitor.client.post(address, json={"content": "{}", "expected": version})
            assert saved.status_code == 200 and stored("rag_tags.json") == {}
            again = await visitor.client.post(address, json={"content": "{}", "expected": version})
            assert again.status_code == 409 and again.json()["content"].strip() == "{}"
            for wrong in ("[]", "{", '{"a": 1}'):
                assert (await visitor.client.post(address, json={"content": wrong})).status_code == 400
            removed = {"name": "c", "action": "remove", "expected": ""}
            assert (await visitor.post("/memory-files/chains/entry", removed)).status_code == 409
            assert (await visitor.post("/memory-files/none/entry", fields)).status_code == 404

    run(main())


def test_a_file_that_is_no_json_is_shown_as_text_with_what_is_wrong(tmp_path: Path) -> None:
    def damage() -> None:
        next(tmp_path.rglob("rag_tags.json")).write_text('{"a": ', encoding="utf-8")

    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            await visitor.post("/memory-files/tags/entry", {"name": "a", "words": "b", "expected": ""})
            damage()
            page = await visitor.page("/memory-files/tags")
            assert "Please mend it" in page and "data-editor" in page

    run(main())


def test_the_explanation_shows_scores_gates_and_texts(tmp_path: Path) -> None:
    write_notes(tmp_path, f"[2026-11-21] - 小克\n西湖的白鹭 {HOSTILE}", "[2026-11-22] - 小克\n服务器备份")

    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            index = visitor.server.services.memory.index
            await index.fresh()
            await until(lambda: index.index is not None and index.index.notebooks().get(BOOK) is not None)
            asked = {"declaration": f"[[{BOOK}日记本]]", "question": "西湖的白鹭"}
            page = (await visitor.post("/recall", asked)).text
            assert "filled" in page and "2026-11-21.txt" in page and "words" in page and "<img src=x" not in page
            assert f'href="{note_address(BOOK, "2026-11-21.txt")}"' in page
            none = (await visitor.post("/recall", {"declaration": "nothing here", "question": "x"})).text
            assert "no declaration" in none
            assert (await visitor.post("/recall", {"declaration": " "})).status_code == 400
            assert "Explain" in await visitor.page("/recall")

    run(main())


def test_the_index_tells_how_it_is_and_is_made_anew(tmp_path: Path) -> None:
    write_notes(tmp_path, "one", "two")

    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            index = visitor.server.services.memory.index
            await until(lambda: index.index is not None and index.index.notebooks().get(BOOK) is not None)
            assert "Memory index" in await visitor.page("/memory-index")
            for path in ("check", "rebuild"):
                state = (await visitor.post(f"/memory-index/{path}", {})).text
                assert "fragments" in state

            async def ended() -> str:
                async with asyncio.timeout(20):
                    while "Running" in (state := await visitor.page("/memory-index/state")):
                        await asyncio.sleep(0.05)
                return state

            async def told(path: str, **fields: str) -> str:
                await ended()
                await visitor.post(f"/memory-index/{path}", fields)
                return await ended()

            rebuilt = await told("rebuild")
            assert "fragments" in rebuilt and "Rebuild: done" in rebuilt and "scannedAt" not in rebuilt
            assert "no faults were found" in await told("check")
            assert index.index is not None
            await index.index.database.write(lambda connection: connection.execute("DELETE FROM chunks"))
            checked = await told("check")
            assert "faults found: " in checked and "<li>" in checked, "what is wrong is told, not only that it is done"
            assert "the index was made anew" in await told("check", repair="true")
            assert "Running" not in await visitor.page("/memory-index/state")
            refused = await visitor.post("/memory-index/import", {"path": "/nowhere"})
            assert refused.status_code == 400

    run(main())


def test_without_memory_the_pages_say_so(tmp_path: Path) -> None:
    async def main() -> None:
        async with visiting(tmp_path, config=["Memory=false"]) as visitor:
            assert "switched off" in await visitor.page("/memory-index")
            assert "Notebooks" in await visitor.page("/notebooks")

    run(main())


def test_words_of_a_field_are_separated_in_both_languages() -> None:
    assert words_of(" a, b，c、d\n\n b ,") == ["a", "b", "c", "d"]
