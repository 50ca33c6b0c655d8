"""Agents and variable files for administrators (vcp-core 8.1, 8.2; P61, P67): shapes, conflicts, confined paths."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.server import run
from tests.web.admin.writing import Writer
from tests.web.asgi import ask

OUTSIDE = (
    "../config.env.txt",
    "..%2Fconfig.env.txt",
    "..%252F..%252Fsecret.txt",
    "a/../../secret.txt",
    "..%5Csecret.txt",
    "%252Fetc%252Fhostname.txt",
    "link%2Fsecret.txt",
    "link.txt",
    "%00.txt",
    ".hidden.txt",
    "x" * 300 + ".txt",
)


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_agents_are_listed_as_paths_and_as_a_tree(tmp_path: Path) -> None:
    """8.2: ``files`` and ``folderStructure``; other files, hidden ones and links out are left out."""
    admin = Writer(tmp_path)
    for name in ("Nova.txt", "团队/小克.md", "团队/深/x.TXT", "note.json", ".secret.txt"):
        admin.write(f"Agent/{name}", "x")
    (tmp_path / "outside.txt").write_text("secret")
    (tmp_path / "Agent" / "link.txt").symlink_to(tmp_path / "outside.txt")

    async def main() -> None:
        answer = await admin.get("/admin_api/agents")
        assert answer.status == 200
        assert answer.json == {
            "files": ["Nova.txt", "团队/小克.md", "团队/深/x.TXT"],
            "folderStructure": {
                "Nova.txt": {"type": "file", "path": "Nova.txt"},
                "团队": {
                    "type": "folder",
                    "children": {
                        "小克.md": {"type": "file", "path": "团队/小克.md"},
                        "深": {"type": "folder", "children": {"x.TXT": {"type": "file", "path": "团队/深/x.TXT"}}},
                    },
                },
            },
        }

    run(main())


def test_a_file_is_read_and_saved_under_names_encoded_once_or_twice(tmp_path: Path) -> None:
    """8.1 [S]: agents are decoded twice; a file whose own name has a percent sign is found too."""
    admin = Writer(tmp_path)
    admin.write("Agent/团队/小 克.txt", "一")
    admin.write("Agent/a%20b.txt", "percent")
    once, twice = quote("团队/小 克.txt", safe=""), quote(quote("团队/小 克.txt", safe=""), safe="")

    async def main() -> None:
        for name in (once, twice):
            answer = await admin.get(f"/admin_api/agents/{name}")
            assert (answer.status, answer.json) == (200, {"content": "一"})
            assert answer.headers["etag"] == f'"{sha("一")}"'
        assert (await admin.get("/admin_api/agents/a%2520b.txt")).json == {"content": "percent"}
        saved = await admin.post(f"/admin_api/agents/{twice}", {"content": "二\r\n"})
        assert (saved.status, list(saved.json)) == (200, ["message"])
        assert (tmp_path / "Agent/团队/小 克.txt").read_bytes() == "二\r\n".encode()
        assert (await admin.get("/admin_api/agents/none.txt")).status == 404
        assert (await admin.get("/admin_api/agents/Nova.json")).status == 400
        assert (await admin.get("/admin_api/agents/folder")).status == 400
        body: Any
        for body in ({}, {"content": 1}, {"content": None}, [], b"{half", b"\xff"):
            assert (await admin.post("/admin_api/agents/Nova.txt", body)).status == 400, body

    run(main())


@pytest.mark.parametrize("kind", ["agents", "tvsvars"])
def test_no_path_leads_out_of_its_folder(tmp_path: Path, kind: str) -> None:
    """8.1 BUG, B3: encoded slashes, backslashes, links, NUL and endless names reach nothing and write nothing."""
    admin = Writer(tmp_path)
    folder = tmp_path / {"agents": "Agent", "tvsvars": "TVStxt"}[kind]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "secret.txt").write_text("secret")
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link").symlink_to(elsewhere)
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")

    async def main() -> None:
        for name in OUTSIDE:
            path = f"/admin_api/{kind}/{name}"
            for answer in (
                await admin.get(path),
                await admin.post(path, {"content": "overwritten"}),
                await admin.ask("DELETE", path),
            ):
                assert answer.status in (400, 404, 405), (name, answer.status, answer.body)
                assert b'secret"' not in answer.body
        new = "/admin_api/agents/new-file" if kind == "agents" else "/admin_api/panel/texts/variables/new"
        for name in ("../x.txt", "../../x.txt", "link/x.txt", "a/../../x.txt", "..\\x.txt"):
            assert (await admin.post(new, {"fileName": name, "path": name})).status == 400, name
        assert (tmp_path / "secret.txt").read_text() == (elsewhere / "secret.txt").read_text() == "secret"
        assert sorted(path.name for path in elsewhere.iterdir()) == ["secret.txt"]
        assert (await ask(admin.app, "GET", f"/admin_api/{kind}")).status in (401, 403)

    run(main())


def test_who_saves_what_somebody_else_changed_is_told_and_nothing_is_lost(tmp_path: Path) -> None:
    """Two people edit the same file: 409 with both versions and the text on disk; without ``expected`` as ever."""
    admin = Writer(tmp_path)
    admin.write("Agent/Nova.txt", "first")

    async def main() -> None:
        path = "/admin_api/agents/Nova.txt"
        read = (await admin.get(path)).headers["etag"].strip('"')
        assert (await admin.post(path, {"content": "mine", "expected": read})).status == 200
        late = await admin.post(path, {"content": "theirs", "expected": read})
        assert late.status == 409
        assert {key: late.json[key] for key in ("current", "yours", "content")} == {
            "current": sha("mine"),
            "yours": sha("theirs"),
            "content": "mine",
        }
        assert (await admin.post(path, {"content": "x"}, ("if-match", f'"{read}"'))).status == 409
        assert (tmp_path / "Agent/Nova.txt").read_text() == "mine"
        assert (await admin.post(path, {"content": "theirs", "expected": late.json["current"]})).status == 200
        assert (await admin.post(path, {"content": "forced"})).status == 200
        assert (await admin.post("/admin_api/agents/neu.txt", {"content": "x", "expected": ""})).status == 200
        assert (await admin.post("/admin_api/agents/neu.txt", {"content": "y", "expected": ""})).status == 409

    run(main())


def test_new_files_get_an_ending_and_never_overwrite(tmp_path: Path) -> None:
    """8.2: ``.txt`` appended without ``.txt``/``.md``; 409 for one that is there; 400 for bad bodies."""
    admin = Writer(tmp_path)

    async def main() -> None:
        path = "/admin_api/agents/new-file"
        assert (await admin.post(path, {"fileName": "甲", "folderPath": "a/b"})).status == 200
        assert (tmp_path / "Agent/a/b/甲.txt").read_text() == ""
        assert (await admin.post(path, {"fileName": "甲.txt", "folderPath": "a\\b"})).status == 409
        assert (await admin.post(path, {"fileName": "b.md"})).status == 200
        for body in (
            {},
            {"fileName": ""},
            {"fileName": 3},
            {"fileName": "x", "folderPath": 1},
            {"fileName": "x/../../y"},
        ):
            assert (await admin.post(path, body)).status == 400, body

    run(main())


def test_the_map_is_given_and_stored_whole(tmp_path: Path) -> None:
    """8.2: ``{}`` without a file; notes stay; a changed map is a conflict for ``If-Match``."""
    admin = Writer(tmp_path)
    (tmp_path / "agent_map.json").unlink(missing_ok=True)

    async def main() -> None:
        path = "/admin_api/agents/map"
        assert (await admin.get(path)).json == {}
        body = {"//": "note", "小克": "团队/小克.txt", "expected": "x.txt"}
        assert (await admin.post(path, body)).status == 200
        answer = await admin.get(path)
        assert answer.json == body
        assert json.loads((tmp_path / "agent_map.json").read_text("utf-8")) == body
        assert (await admin.post(path, {"a": "b.txt"}, ("if-match", '"0"'))).status == 409
        assert (await admin.post(path, {"a": "b.txt"}, ("if-match", answer.headers["etag"]))).status == 200
        bad: Any
        for bad in ([], {"a": 1}, b"{", {"a": {"b": "c"}}):
            assert (await admin.post(path, bad)).status == 400
        admin.write("agent_map.json", "{half")
        assert (await admin.get(path)).status == 400

    run(main())


def test_rows_of_the_map_are_saved_with_its_notes_and_a_renamed_file_keeps_its_aliases(tmp_path: Path) -> None:
    """P67: notes under repeated keys stay; two equal names are refused before anything is written."""
    admin = Writer(tmp_path)
    text = '{"//": "one", "a": "a.txt", "//": "two", "odd": 3, "b": "sub\\\\b.txt"}'
    admin.write("agent_map.json", text)
    admin.write("Agent/sub/b.txt", "b")

    async def main() -> None:
        path = "/admin_api/panel/agent-map"
        rows = [{"alias": "z", "file": "a.txt"}, {"alias": "b", "file": "sub/b.txt"}, {"alias": "n", "file": "n.txt"}]
        saved = await admin.post(path, {"rows": rows, "expected": sha(text)})
        assert saved.status == 200, saved.body
        written = json.loads((tmp_path / "agent_map.json").read_text("utf-8"), object_pairs_hook=list)
        assert written == [
            ("//", "one"), ("z", "a.txt"), ("//", "two"), ("odd", 3), ("b", "sub/b.txt"), ("n", "n.txt"),
        ]  # fmt: skip
        assert (await admin.post(path, {"rows": rows, "expected": sha(text)})).status == 409
        renamed = await admin.post("/admin_api/panel/texts/agents/rename", {"path": "sub/b.txt", "to": "c/d.txt"})
        assert (renamed.status, renamed.json["aliases"]) == (200, 1)
        assert (await admin.get("/admin_api/agents/map")).json["b"] == "c/d.txt"
        kept = admin.write("agent_map.json", "{half").read_bytes()
        refused = await admin.post("/admin_api/panel/texts/agents/rename", {"path": "c/d.txt", "to": "e.txt"})
        assert (refused.status, (tmp_path / "Agent/c/d.txt").exists()) == (400, True)
        assert (tmp_path / "agent_map.json").read_bytes() == kept
        admin.write("agent_map.json", '{"b": "c/d.txt"}')
        before = (tmp_path / "agent_map.json").read_bytes()
        bad: Any
        for bad in (
            {},
            {"rows": 1},
            {"rows": [1]},
            {"rows": [{"alias": "a", "file": ""}]},
            {"rows": [{"alias": "a}", "file": "x"}]},
            {"rows": [{"alias": "a", "file": "x"}, {"alias": "a", "file": "y"}]},
            {"rows": [{"alias": "//", "file": "x"}]},
        ):
            assert (await admin.post(path, bad)).status == 400, bad
        assert (tmp_path / "agent_map.json").read_bytes() == before

    run(main())


@pytest.mark.parametrize(("kind", "folder"), [("agents", "Agent"), ("variables", "TVStxt")])
def test_deleted_files_come_back_and_nothing_is_overwritten(tmp_path: Path, kind: str, folder: str) -> None:
    admin = Writer(tmp_path)
    route = {"agents": "agents", "variables": "tvsvars"}[kind]

    async def main() -> None:
        base = f"/admin_api/panel/texts/{kind}"
        assert (await admin.post(f"{base}/new", {"path": "a/b.txt"})).status == 200
        admin.write(f"{folder}/a/b.txt", "kept")
        gone = await admin.ask("DELETE", f"/admin_api/{route}/a%2Fb.txt")
        assert gone.status == 200
        assert not (tmp_path / folder / "a/b.txt").exists()
        trash = (await admin.get(f"{base}/trash")).json["trash"]
        assert trash == [{"id": gone.json["trash"], "path": "a/b.txt"}]
        admin.write(f"{folder}/a/b.txt", "newer")
        assert (await admin.post(f"{base}/restore", {"trash": gone.json["trash"]})).status == 409
        assert (await admin.post(f"{base}/rename", {"path": "a/b.txt", "to": "c.txt"})).status == 200
        back = await admin.post(f"{base}/restore", {"trash": gone.json["trash"]})
        assert (back.status, back.json["path"]) == (200, "a/b.txt")
        assert (tmp_path / folder / "a/b.txt").read_text() == "kept"
        assert (await admin.get(f"{base}/trash")).json == {"trash": []}
        bad: Any
        for bad in ("../../x", "", "2025", gone.json["trash"]):
            assert (await admin.post(f"{base}/restore", {"trash": bad})).status in (400, 404)
        assert (await admin.post(f"{base}/rename", {"path": "a/b.txt", "to": "c.txt"})).status == 409
        assert (await admin.post(f"{base}/rename", {"path": "none.txt", "to": "d.txt"})).status == 404
        assert (await admin.post(f"{base}/rename", {"path": "c.txt", "to": "../d.txt"})).status == 400

    run(main())


def test_variable_files_are_listed_read_and_written(tmp_path: Path) -> None:
    """8.2: ``.txt`` only, 400 and 404."""
    admin = Writer(tmp_path)
    for path in (tmp_path / "TVStxt").iterdir():
        path.unlink()
    admin.write("TVStxt/导览.txt", b"\xff\xfe")
    admin.write("TVStxt/x.md", "x")

    async def main() -> None:
        assert (await admin.get("/admin_api/tvsvars")).json == {"files": ["导览.txt"]}
        assert (await admin.get("/admin_api/tvsvars/" + quote("导览.txt"))).json == {"content": "\ufffd\ufffd"}
        assert (await admin.get("/admin_api/tvsvars/x.md")).status == 400
        assert (await admin.get("/admin_api/tvsvars/no.txt")).status == 404
        assert (await admin.post("/admin_api/tvsvars/new.txt", {"content": "{{Date}}"})).status == 200
        assert (tmp_path / "TVStxt/new.txt").read_text() == "{{Date}}"

    run(main())


def test_a_full_disk_leaves_the_file_and_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = Writer(tmp_path)
    admin.write("Agent/Nova.txt", "old")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    async def main() -> None:
        monkeypatch.setattr("app.config.durable.os.fsync", full)
        answer = await admin.post("/admin_api/agents/Nova.txt", {"content": "new"})
        assert answer.status == 500
        assert "No space left" in answer.body.decode()
        assert (tmp_path / "Agent/Nova.txt").read_text() == "old"
        assert (await admin.ask("DELETE", "/admin_api/agents/Nova.txt")).status == 500
        assert (tmp_path / "Agent/Nova.txt").read_text() == "old"

    run(main())


def test_files_that_are_too_large_are_refused_whole(tmp_path: Path) -> None:
    admin = Writer(tmp_path)
    admin.write("Agent/big.txt", b"x" * (8 * 1024 * 1024 + 1))

    async def main() -> None:
        assert (await admin.get("/admin_api/agents/big.txt")).status == 413
        text = "y" * (8 * 1024 * 1024 + 1)
        assert (await admin.post("/admin_api/agents/big.txt", {"content": text})).status == 413
        assert (tmp_path / "Agent/big.txt").read_bytes()[:1] == b"x"
        assert (await admin.post("/admin_api/agents/x.txt", b" " * (17 * 1024 * 1024))).status == 413

    run(main())


def test_all_placeholders_of_now_are_listed_with_where_they_come_from(tmp_path: Path) -> None:
    admin = Writer(tmp_path, "VarHome=家", "TarSys=guide.txt", "SarModel1=m", "SarPrompt1=x")
    admin.write("agent_map.json", '{"Nova": "Nova.txt", "//": "note"}')
    admin.write("dailynote/小克/a.txt", "x")
    admin.write("Plugin/VCPTavern/presets/oc.json", "{}")
    admin.write("Plugin/EmojiListGenerator/generated_lists/猫表情包.txt", "a.png")

    async def main() -> None:
        answer = await admin.get("/admin_api/panel/placeholders", ("accept-language", "en"))
        lines = {line["label"]: line for line in answer.json}
        assert {
            "{{Nova}}", "{{VarHome}}", "{{TarSys}}", "{{SarPrompt1}}", "{{Date}}", "{{VCPAllTools}}",
            "{{VCPSciCalculator}}", "{{小克日记本}}", "[[小克日记本]]", "<<小克日记本>>", "《《小克日记本》》",
            "{{VCPTavern::oc}}", "{{猫表情包}}", "{{USER_AUTH_CODE}}",
        } <= lines.keys()  # fmt: skip
        assert "Agent/Nova.txt" in lines["{{Nova}}"]["detail"]
        assert "家" in lines["{{VarHome}}"]["detail"]
        assert "{{//}}" not in lines

    run(main())


def test_a_preview_shows_where_text_comes_from_and_what_nobody_fills(tmp_path: Path) -> None:
    """No plugin runs, no memory is searched: such placeholders stay and are named; unknown ones too."""
    admin = Writer(tmp_path, "VarHome=家 {{Date}}")
    admin.write("agent_map.json", '{"Nova": "Nova.txt"}')
    admin.write("Agent/Nova.txt", "I am Nova.")
    admin.write("dailynote/小克/a.txt", "{{VarHome}} <img src=x onerror=alert(1)>")

    async def main() -> None:
        text = "{{Nova}} {{VarHome}} {{小克日记本}} [[小克日记本]] {{VCPTavern::oc}} {{NoSuch}} {{VarNo}}"
        answer = await admin.post("/admin_api/panel/prompt-preview", {"text": text, "model": "m"})
        assert answer.status == 200, answer.body
        found = answer.json
        pieces = {(piece["source"], piece["mark"]): piece for piece in found["pieces"]}
        assert pieces["agent:Nova", "text"]["text"] == "I am Nova."
        assert pieces["diary:小克", "text"]["text"] == "{{VarHome}} <img src=x onerror=alert(1)>"
        assert pieces["diary:小克", "text"]["trust"] == "data"
        assert pieces["recall", "later"]["text"] == "[[小克日记本]]"
        assert found["later"] == ["[[小克日记本]]", "{{VCPTavern::oc}}"]
        assert found["unknown"] == ["{{NoSuch}}", "{{VarNo}}"]
        assert found["tokens"] > 10
        assert not found["cut"]
        user = (await admin.post("/admin_api/panel/prompt-preview", {"text": text, "role": "user"})).json
        assert (user["unknown"], user["pieces"][0]["text"]) == ([], text)
        long = (await admin.post("/admin_api/panel/prompt-preview", {"text": "字" * 250_000})).json
        assert (long["cut"], long["tokens"]) == (True, 250_000)
        loop = {"text": "{{Nova}}"}
        admin.write("Agent/Nova.txt", "{{Nova}}")
        assert "Circular" in (await admin.post("/admin_api/panel/prompt-preview", loop)).json["pieces"][0]["text"]
        bad: Any
        for bad in ({}, {"text": 3}, [], {"text": "x" * 1_000_001}):
            assert (await admin.post("/admin_api/panel/prompt-preview", bad)).status == 400

    run(main())
