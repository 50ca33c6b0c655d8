"""SemanticGroupEditor: groups are listed, made and changed, and count at once (memory.md 5.1)."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from app.errors import BadRequestError
from app.memory.enhance.group_editor import GroupEditor
from app.memory.enhance.places import enhancement_folder
from app.memory.enhance.semantic_groups import SemanticGroups
from app.memory.vectors.none import NoVectors

OLD = {
    "config": {"auto_save_on_learn": True},
    "groups": {"编程": {"words": ["代码"], "auto_learned": ["算法"], "weight": 2.5, "vector_id": "u", "x": 1}},
}


def edited(home: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((home / "memory" / "semantic_groups.edit.json").read_text("utf-8"))
    return found


def test_updates_make_groups_replace_words_and_keep_the_rest(tmp_path: Path) -> None:
    editor = GroupEditor(tmp_path)
    assert "没有语义组" in editor.call({"command": "QueryGroups"})
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "semantic_groups.json").write_text(json.dumps(OLD), "utf-8")
    groups = SemanticGroups(enhancement_folder(tmp_path), NoVectors(), lambda: clock[0])
    clock = [0.0]
    assert list(groups.groups()) == ["编程"]
    answer = editor.call({"command": "updategroups", "groupname": "编程", "groupwords": "函数，调试, 函数"})
    assert "编程" in answer
    assert edited(tmp_path)["config"] == OLD["config"]
    assert edited(tmp_path)["groups"]["编程"] == {**OLD["groups"]["编程"], "words": ["函数", "调试"]}  # type: ignore[index]
    numbered = {"groupname1": "旅行", "groupwords1": "海边、山", "GroupName2": "饮食", "groupwords2": "咖啡"}
    editor.call({"command": "UpdateGroups", **numbered})
    assert edited(tmp_path)["groups"]["旅行"] == {"words": ["海边", "山"], "auto_learned": [], "weight": 1.0}
    clock[0] = 2.0  # live: without a restart
    assert list(groups.groups()) == ["编程", "旅行", "饮食"]
    listed = editor.call({"command": "QueryGroups"})
    assert "- 编程: 函数, 调试\n" in listed
    assert "算法" in listed


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"command": "Drop"},
        {"command": "UpdateGroups"},
        {"command": "UpdateGroups", "groupname": "a"},
        {"command": "UpdateGroups", "groupname": "", "groupwords": "b"},
        {"command": "UpdateGroups", "groupname": "a" * 101, "groupwords": "b"},
        {"command": "UpdateGroups", "groupname1": "a", "groupwords1": ",", "groupname2": "b", "groupwords2": "c"},
        {"command": "UpdateGroups", **{f"{key}{n}": "x" for n in range(200) for key in ("groupname", "groupwords")}}
        | {f"groupname{n}": str(n) for n in range(200)},
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_is_written(tmp_path: Path, arguments: dict[str, Any]) -> None:
    with pytest.raises(BadRequestError):
        GroupEditor(tmp_path).call(arguments)
    assert not (tmp_path / "memory").exists()


def test_a_faulty_file_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    path = tmp_path / "memory" / "semantic_groups.edit.json"
    path.write_text("{half", "utf-8")
    with pytest.raises(BadRequestError):
        GroupEditor(tmp_path).call({"command": "UpdateGroups", "groupname": "a", "groupwords": "b"})
    assert path.read_text("utf-8") == "{half"


def test_changes_that_meet_all_hold(tmp_path: Path) -> None:
    editor = GroupEditor(tmp_path)
    asked = [{"command": "UpdateGroups", "groupname": f"g{number}", "groupwords": "w"} for number in range(12)]
    threads = [threading.Thread(target=editor.call, args=(one,)) for one in asked]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(edited(tmp_path)["groups"]) == 12
