"""DailyNote as a child process (vcp-core 9; memory.md 1.2 to 1.6)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

PLUGIN = Path(__file__).resolve().parents[2] / "Plugin" / "DailyNote"
NOTE = {
    "command": "create",
    "maid": "[公共]小克",
    "Date": "2025.11.27",
    "Content": "散步。\n\nTag：河边，散步",
    "archery": "no_reply",
}


@pytest.fixture
def call(run_plugin: Any, tmp_path: Path) -> Any:
    def run(arguments: object = NOTE, **more: Any) -> Any:
        return run_plugin("DailyNote", arguments, PROJECT_BASE_PATH=str(tmp_path), **more)

    return run


def notes(root: Path) -> list[Path]:
    return sorted(path for path in (root / "dailynote").rglob("*") if path.is_file())


def test_create_stores_a_note_as_the_block_form_does(call: Any, tmp_path: Path) -> None:
    answer = call()
    (path,) = notes(tmp_path)
    assert answer.json == {"status": "success", "message": f"Diary saved to {path}", "filePath": str(path)}
    assert answer.code == 0
    assert re.fullmatch(r"公共/2025-11-27-\d\d_\d\d_\d\d\.txt", str(path.relative_to(tmp_path / "dailynote")))
    assert path.read_bytes().decode() == "[2025-11-27] - 小克\n散步。\nTag: 河边, 散步"


def test_folder_tag_and_file_name_are_taken_as_arguments(call: Any, tmp_path: Path) -> None:
    call(NOTE | {"Content": "散步。", "Tag": "河边、散步", "folder": "旅行/../", "fileName": "河边"})
    (path,) = notes(tmp_path)
    assert path.parent == tmp_path / "dailynote" / "旅行"
    assert path.name.endswith("-河边.txt")
    assert path.read_bytes().decode() == "[2025-11-27] - 小克\n散步。\nTag: 河边, 散步"


def test_a_note_without_tags_is_refused_and_the_model_is_told_how(call: Any, tmp_path: Path) -> None:
    answer = call(NOTE | {"Content": "散步。"})
    assert (answer.json["status"], answer.code) == ("error", 1)
    assert "Tag: word, word" in answer.json["error"]
    assert not (tmp_path / "dailynote").exists()


@pytest.mark.parametrize("missing", ["maid", "Date", "Content"])
def test_what_is_missing_is_named(call: Any, missing: str) -> None:
    answer = call({name: value for name, value in NOTE.items() if name != missing})
    assert missing.lower() in answer.json["error"].lower()


def test_update_changes_a_note_that_create_wrote(call: Any, tmp_path: Path) -> None:
    call(NOTE | {"Content": "今天在河边走了很久，遇到一只白鹭。\nTag: a"})
    (path,) = notes(tmp_path)
    answer = call({"command": "update", "maid": "公共", "target": "今天在河边走了很久，遇到一只白鹭。", "replace": " "})
    assert answer.json == {"status": "success", "result": f"Successfully edited diary file: {path}"}
    assert path.read_bytes().decode() == "[2025-11-27] - 小克\n \nTag: a"


def test_update_that_finds_nothing_is_an_error(call: Any, tmp_path: Path) -> None:
    call()
    answer = call({"command": "update", "target": "this text is nowhere at all", "replace": "x"})
    assert (answer.json["status"], answer.code) == ("error", 1)
    assert "no note contains" in answer.json["error"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"command": "delete"},
        {"maid": "x"},
        {"command": ["create"]},
        {"command": "update", "target": "x" * 20},
        {"command": "update", "target": "x" * 20, "replace": 7},
        {"command": "update", "target": "short", "replace": ""},
        [],
        "text",
    ],
)
def test_a_call_that_makes_no_sense_is_a_clear_error(call: Any, arguments: object) -> None:
    answer = call(arguments)
    assert (answer.json["status"], answer.code) == ("error", 1)
    assert " / " in answer.json["error"]


def test_an_unknown_command_is_told_the_two_there_are(call: Any) -> None:
    assert "create and update" in call({"command": "删除"}).json["error"]


def test_a_maid_cannot_leave_the_diary_folder(call: Any, tmp_path: Path) -> None:
    path = Path(call(NOTE | {"maid": "[../../etc]x"}).json["filePath"])
    assert path.parent == tmp_path / "dailynote" / "etc"


def test_every_example_of_the_manifest_is_a_call_that_works(call: Any, tmp_path: Path) -> None:
    from app.protocol.tool_blocks import parse_request

    manifest = json.loads((PLUGIN / "plugin-manifest.json").read_text("utf-8"))
    for command in manifest["capabilities"]["invocationCommands"]:
        block = parse_request(command["example"])
        arguments = dict(block.arguments)
        assert set(arguments) <= set(command["parameters"]["properties"])
        assert call(arguments).json["status"] == "success"
    (path,) = notes(tmp_path)
    assert "定下了春天去看海的计划" in path.read_text("utf-8")


def test_with_tag_master_the_model_gives_the_tags_that_are_missing(call: Any, tag_server: Any, tmp_path: Path) -> None:
    """1.6, newer versions: ``TagMaster=true``; the prompt is that of DailyNoteWrite."""
    tag_server.say("[[Tag: 散步，河边]]")
    answer = call(NOTE | {"Content": "散步。"}, TagMaster="true", **tag_server.settings())
    (path,) = notes(tmp_path)
    assert answer.json["message"] == f"Diary saved to {path}"
    assert path.read_bytes().decode() == "[2025-11-27] - 小克\n散步。\nTag: 散步, 河边"
    assert "[[Tag:" in tag_server.requests[0]["body"]["messages"][0]["content"]
    call(NOTE, TagMaster="true", **tag_server.settings())
    assert len(tag_server.requests) == 1


def test_with_tag_master_and_no_model_the_note_is_kept_without_tags(call: Any, tmp_path: Path) -> None:
    answer = call(NOTE | {"Content": "散步。"}, TagMaster="true")
    assert "Stored without tags" in answer.json["message"]
    assert notes(tmp_path)[0].read_bytes().decode() == "[2025-11-27] - 小克\n散步。"


def test_an_edit_that_finds_nothing_shows_the_nearest_passage_if_wanted(call: Any, tmp_path: Path) -> None:
    call(NOTE | {"Content": "今天在河边走了很久，遇到一只白鹭。\nTag: a"})
    edit = {"command": "update", "target": "今天在河边走了好久，遇到一只白鹭", "replace": "x"}
    assert "[-好-]{+很+}" in call(edit, DAILY_NOTE_FUZZY_DIFF="true").json["error"]
    assert "白鹭" not in call(edit).json["error"]


def test_the_shared_book_is_found_by_the_name_people_call_it(call: Any, tmp_path: Path) -> None:
    call(NOTE)
    call(NOTE | {"maid": "[公共日记本]小克"})
    assert {path.parent.name for path in notes(tmp_path)} == {"公共"}


def test_notebooks_may_lie_elsewhere_below_the_home(call: Any, tmp_path: Path) -> None:
    answer = call(KNOWLEDGEBASE_ROOT_PATH="books")
    assert Path(answer.json["filePath"]).parent == tmp_path / "books" / "公共"


def test_a_private_notebook_is_written_by_its_own_agent_only(call: Any, tmp_path: Path) -> None:
    """11.23."""
    (tmp_path / "notebook_permissions.json").write_text('{"公共": "private"}', "utf-8")
    answer = call()
    assert (answer.json["status"], answer.code) == ("error", 1)
    assert "may not write" in answer.json["error"]
    assert call(NOTE | {"maid": "公共"}).json["status"] == "success"
