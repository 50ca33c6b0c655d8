"""Files of groups, notebook tags and chains: read tolerantly, live, and what they mean (memory.md 5.1, 5.2, 5.5)."""

from __future__ import annotations

import json
import logging
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.memory.enhance.chains import ChainsFile, parsed_chains
from app.memory.enhance.places import enhancement_folder
from app.memory.enhance.rag_tags import NotebookTopic, RagTags, enhanced_text, parsed_topics
from app.memory.enhance.semantic_groups import activated, boosted_vector, parsed_groups

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=20,
)


def write(path: Path, document: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")


def test_a_quarter_of_a_groups_words_pulls_the_question_by_its_weight() -> None:
    """M5: q = (1, 0), v = (0, 1), ω = 1.2, 1 of 4 words: (1, 0.3)/1.3."""
    groups = parsed_groups(
        {"groups": {"猫": {"words": ["猫粮", "猫砂", "绝育"], "auto_learned": ["Whiskers"], "weight": 1.2}}}
    )
    assert groups is not None
    [(group, activation)] = activated(groups, "WHISKERS 今天不吃")
    assert (activation.name, activation.strength, activation.matched) == ("猫", 0.25, ("Whiskers",))
    one, other = np.array([1, 0], dtype=np.float32), np.array([0, 1], dtype=np.float32)
    bent = boosted_vector(one, [(group.weight * activation.strength, other)])
    assert bent.tolist() == pytest.approx([0.769231, 0.230769], abs=1e-6)


def test_the_theme_of_a_group_is_its_name_and_all_of_its_words() -> None:
    """5.1."""
    groups = parsed_groups({"groups": {"猫": {"words": ["猫粮", "猫砂"], "auto_learned": ["猫砂", "绝育"]}}})
    assert groups is not None
    assert groups["猫"].theme == "猫相关主题：猫粮, 猫砂, 绝育"
    assert groups["猫"].weight == 1.0


def test_groups_that_are_written_wrongly_lose_only_what_is_wrong() -> None:
    groups = parsed_groups(
        {"groups": {"甲": {"words": ["一", 2, "", " 三 "], "weight": "x"}, "乙": 5, "丙": ["四"], " ": {}}}
    )
    assert groups is not None
    assert {name: (group.words, group.weight) for name, group in groups.items()} == {
        "甲": (("一", "三"), 1.0),
        "丙": (("四",), 1.0),
    }
    assert parsed_groups({"config": {}}) is None
    assert activated({}, "什么") == []


@settings(max_examples=40)
@given(st.dictionaries(st.text(max_size=6), JSON, max_size=4))
def test_no_document_of_any_shape_raises(document: dict[str, object]) -> None:
    activated(parsed_groups({"groups": document}) or {}, "text 文")
    parsed_groups(document)
    for name, topic in parsed_topics(document).items():
        enhanced_text(name, topic)
    for chain in parsed_chains({"chains": document}).values():
        assert len(chain.sequence()) == len(chain.clusters)
    parsed_chains(document)


def test_a_tag_is_written_as_often_as_its_weight_and_at_least_once() -> None:
    """5.2: 1.2 and 0.8 both mean once, 1.5 twice."""
    topics = parsed_topics(
        {"小克": {"tags": ["音乐:1.2", "编程:1.5", "猫:0.8", "比例 3:4:2", "a:b"], "threshold": 0.45}}
    )
    assert enhanced_text("小克", topics["小克"]) == "小克的相关主题：音乐, 编程, 编程, 猫, 比例 3:4, 比例 3:4, a:b"
    assert topics["小克"].threshold == 0.45


@pytest.mark.parametrize(
    ("written", "read"),
    [(0, 0.0), (0.0, 0.0), ("0.3", 0.3), (1, 1.0), (None, None), (True, None), ("x", None), (-1, None), ([], None)],
)
def test_a_threshold_of_zero_is_zero_and_what_is_none_counts_as_not_said(written: object, read: float | None) -> None:
    """2.6: in the reference a configured 0 fell back to 0.6."""
    assert parsed_topics({"X": {"threshold": written}})["X"].threshold == read
    assert parsed_topics({"X": {"threshold": float("nan")}, "Y": {"threshold": 10**400}})["Y"].threshold is None


def test_a_bare_list_is_the_tags() -> None:
    assert parsed_topics({"X": ["a"], "Y": "no"}) == {"X": NotebookTopic((("a", 1.0),), None)}


def test_files_are_read_again_when_they_change_and_a_faulty_one_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = count(0.0, 2.0)
    tags = RagTags(tmp_path, lambda: next(clock))
    assert tags.threshold("X") is None
    write(tmp_path / "rag_tags.json", {"X": {"threshold": 0.5}})
    assert tags.threshold("X") == 0.5
    version = tags.version
    (tmp_path / "rag_tags.json").write_bytes(b'{"X": {"thres')
    with caplog.at_level(logging.WARNING):
        assert tags.threshold("X") == 0.5
    assert "rag_tags.json is not used" in caplog.text
    assert tags.version == version
    (tmp_path / "rag_tags.json").write_bytes(b"\xff\xfe")
    assert tags.threshold("X") == 0.5
    (tmp_path / "rag_tags.json").unlink()
    assert tags.threshold("X") is None


def test_the_references_folder_is_used_where_it_is_and_a_plain_one_elsewhere(tmp_path: Path) -> None:
    assert enhancement_folder(tmp_path) == tmp_path / "memory"
    (tmp_path / "Plugin" / "RAGDiaryPlugin").mkdir(parents=True)
    assert enhancement_folder(tmp_path) == tmp_path / "Plugin" / "RAGDiaryPlugin"


def test_both_shapes_of_the_chain_file_are_read(tmp_path: Path) -> None:
    """5.5: a list of clusters, or clusters with kSequence and description; what the placeholder asks for wins."""
    write(
        tmp_path / "meta_thinking_chains.json",
        {
            "chains": {
                "old": ["前思维簇", "反思簇"],
                "new": {"clusters": ["甲簇", "乙簇", "甲簇"], "kSequence": [2, "x"], "description": "写代码"},
                "broken": {"clusters": 7},
            }
        },
    )
    chains = ChainsFile(tmp_path, lambda: 0.0).chains()
    assert chains["old"].clusters == ("前思维簇", "反思簇")
    assert chains["old"].sequence() == (1, 1)
    assert chains["new"].sequence() == (2, 1, 1)
    assert chains["new"].sequence((3, 3, 3, 9)) == (3, 3, 3)
    assert chains["new"].sequence((10**9,)) == (50, 1, 1)
    assert chains["new"].description == "写代码"
    assert "broken" not in chains
    assert chains["default"].clusters == ("前思维簇", "逻辑推理簇", "反思簇", "结果辩证簇", "陈词总结梳理簇")
