"""Files of thought clusters (memory.md 1.7 ThoughtClusterManager)."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from app.memory.diaries.clusters import StepsFailedError, run_clusters
from app.memory.diaries.files import DiaryError

NOW = datetime(2025, 3, 27, 10, 0, 0, 123_000, UTC)
CREATE = {
    "command": "CreateClusterFile",
    "clusterName": " 逻辑 推理簇 ",
    "content": "先假设结论不成立，再寻找其中的矛盾。",
}


def ask(home: Path, **arguments: Any) -> str:
    return run_clusters(arguments, home, home / "dailynote", NOW)


def test_a_file_is_named_by_the_moment_and_never_overwritten(tmp_path: Path) -> None:
    said = [ask(tmp_path, **CREATE) for _ in range(2)]
    folder = tmp_path / "dailynote" / "逻辑推理簇"
    assert sorted(path.name for path in folder.iterdir()) == [
        "2025-03-27T10-00-00-123Z.md",
        "2025-03-27T10-00-00-123Z_2.md",
    ]
    assert "2025-03-27T10-00-00-123Z.md" in said[0]
    assert (folder / "2025-03-27T10-00-00-123Z.md").read_text("utf-8") == CREATE["content"]


def test_the_first_match_in_any_cluster_is_replaced(tmp_path: Path) -> None:
    ask(tmp_path, **CREATE)
    (tmp_path / "dailynote" / "小克").mkdir()
    (tmp_path / "dailynote" / "小克" / "a.txt").write_text(CREATE["content"], "utf-8")
    edit = {"command": "EditClusterFile", "targetText": "先假设结论不成立，再寻找其中的", "replacementText": ""}
    ask(tmp_path, **edit)
    assert next((tmp_path / "dailynote/逻辑推理簇").iterdir()).read_text("utf-8") == "矛盾。"
    assert (tmp_path / "dailynote/小克/a.txt").read_text("utf-8") == CREATE["content"]


def test_numbered_steps_run_in_order_and_all_must_succeed(tmp_path: Path) -> None:
    steps = {
        "command1": "CreateClusterFile",
        "clusterName1": "甲簇",
        "content1": "一段足够长的文字，供后面修改使用。",
        "command2": "EditClusterFile",
        "targetText2": "一段足够长的文字，供后面修改使用。",
        "replacementText2": "改好了",
    }
    assert ask(tmp_path, **steps).startswith("[1] 已创建")
    assert next((tmp_path / "dailynote/甲簇").iterdir()).read_text("utf-8") == "改好了"
    further = {"command3": "CreateClusterFile", "clusterName3": "乙簇", "content3": "后面的步骤照做"}
    with pytest.raises(StepsFailedError) as told:
        ask(tmp_path, **(steps | {"clusterName1": "不是"} | further))
    assert told.value.message.split("\n")[0].startswith("[1] 失败")
    assert (tmp_path / "dailynote/乙簇").is_dir()


@pytest.mark.parametrize(
    "change",
    [
        {"command": "DeleteClusterFile"},
        {"command": ""},
        {"clusterName": "逻辑推理"},
        {"clusterName": "簇"},
        {"clusterName": ""},
        {"clusterName": "字" * 100 + "簇"},
        {"content": " "},
        {"content": "字" * (3 * 1024 * 1024)},
    ],
)
def test_a_file_that_cannot_be_made_is_refused(tmp_path: Path, change: dict[str, str]) -> None:
    with pytest.raises(DiaryError):
        ask(tmp_path, **(CREATE | change))
    assert not (tmp_path / "dailynote").exists()


@pytest.mark.parametrize(
    "change",
    [{"targetText": "short"}, {"replacementText": None}, {"clusterName": "没有簇"}, {"targetText": "x" * 20}],
)
def test_an_edit_that_finds_nothing_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    ask(tmp_path, **CREATE)
    edit = {"command": "EditClusterFile", "targetText": CREATE["content"], "replacementText": "x"}
    with pytest.raises(DiaryError):
        ask(tmp_path, **(edit | change))


def test_a_cluster_never_leads_out_of_the_diary_folder(tmp_path: Path) -> None:
    ask(tmp_path, **(CREATE | {"clusterName": "../../etc簇"}))
    assert (tmp_path / "dailynote" / "etc簇").is_dir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "dailynote" / "外簇").symlink_to(tmp_path / "outside")
    with pytest.raises(DiaryError):
        ask(tmp_path, **(CREATE | {"clusterName": "外簇"}))
    assert list((tmp_path / "outside").iterdir()) == []
