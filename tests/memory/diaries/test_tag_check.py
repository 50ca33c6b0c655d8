"""The check of tag lines in old folders (memory.md 1.4, 10.5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.memory.diaries.tag_check import TagState, check_notes, check_tags, pausing, repair
from app.memory.diaries.tagging import NoTagsError


@pytest.mark.parametrize(
    ("last", "state", "line"),
    [
        ("Tag: a, b", TagState.VALID, ""),
        ("Tag: a, b\n\n", TagState.VALID, ""),
        ("Tag: a", TagState.VALID, ""),
        ("tag:A，B、C", TagState.REPAIRABLE, "Tag: A, B, C"),
        ("Tag: A ,B,  C", TagState.REPAIRABLE, "Tag: A, B, C"),
        ("Tag: a,b", TagState.REPAIRABLE, "Tag: a, b"),
        ("Tag: a,  b", TagState.REPAIRABLE, "Tag: a, b"),
        ("Tag：消费降级，鸭货", TagState.REPAIRABLE, "Tag: 消费降级, 鸭货"),
        ("标签：河边、散步", TagState.REPAIRABLE, "Tag: 河边, 散步"),
        ("Tags: a, b", TagState.REPAIRABLE, "Tag: a, b"),
        ("Tag: 时间：早上，地点", TagState.REPAIRABLE, "Tag: 时间早上, 地点"),
        ("Tag:", TagState.MISSING, ""),
        ("Tag: ，、", TagState.MISSING, ""),
        ("Tag: a\nlater text", TagState.MISSING, ""),
        ("hashTag: a", TagState.MISSING, ""),
        ("", TagState.MISSING, ""),
    ],
)
def test_a_tag_line_is_valid_repairable_or_missing(last: str, state: TagState, line: str) -> None:
    assert check_tags(f"[2025-11-27] - x\nbody\n{last}") == (state, line)


def test_the_rest_of_a_repaired_note_stays_byte_for_byte(tmp_path: Path) -> None:
    for name, text, after in [
        ("a.txt", "x\r\n  y \r\nTag：a，b\r\n", "x\r\n  y \r\nTag: a, b\r\n"),
        ("b.txt", "Tag: in the middle\nz", "Tag: in the middle\nz\nTag: new, tags"),
        ("c.txt", "z\r\nTag:\r\n", "z\r\nTag: new, tags\r\n"),
        ("d.txt", "z\r\n", "z\r\nTag: new, tags\r\n"),
        ("e.txt", "", "Tag: new, tags"),
    ]:
        path = tmp_path / "book" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode())
        (checked,) = (one for one in check_notes(tmp_path) if one.path == path)
        assert repair(checked, lambda _text: "Tag: new, tags").line
        assert path.read_bytes().decode() == after
        assert check_tags(after)[0] is TagState.VALID


def test_notes_that_cannot_be_repaired_stay_and_say_why(tmp_path: Path) -> None:
    (tmp_path / "book/sub").mkdir(parents=True)
    (tmp_path / "book/a.txt").write_bytes(b"\xff\xfe")
    (tmp_path / "book/sub/b.md").write_text("no tags", "utf-8")

    def refuse(_text: str) -> str:
        raise NoTagsError("模型不在", "the model is away")

    unreadable, missing = check_notes(tmp_path, "book")
    assert (unreadable.state, missing.state) == (TagState.UNREADABLE, TagState.MISSING)
    assert repair(unreadable, refuse).why == "cannot be read"
    assert repair(missing, None).why == "no tag model"
    assert repair(missing, refuse).why == "模型不在 / the model is away"
    assert (tmp_path / "book/sub/b.md").read_text("utf-8") == "no tags"

    def meanwhile(_text: str) -> str:
        (tmp_path / "book/sub/b.md").write_text("somebody's", "utf-8")
        return "Tag: a"

    assert repair(missing, meanwhile).why == "was changed meanwhile"
    assert (tmp_path / "book/sub/b.md").read_text("utf-8") == "somebody's"


def test_the_model_gets_a_pause_between_questions() -> None:
    slept: list[float] = []
    ask = pausing(lambda text: f"Tag: {text}", 2.0, slept.append)
    assert [ask("a"), ask("b"), ask("c")] == ["Tag: a", "Tag: b", "Tag: c"]
    assert slept == [2.0, 2.0]
