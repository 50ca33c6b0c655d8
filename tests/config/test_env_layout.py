"""What the panel says of each setting comes from config.env.example."""

from __future__ import annotations

import pytest

from app.config.env_layout import Layout, family_of, read_layout
from app.config.program_files import EXAMPLE, program_file
from app.config.settings import names

SHIPPED = read_layout(program_file(EXAMPLE).read_text(encoding="utf-8"))


def test_every_setting_has_a_group_and_help_in_both_languages() -> None:
    for name in names():
        groups = [group for group in SHIPPED.groups if name in group.keys]
        assert len(groups) == 1, name
        (found,) = [found for found in groups[0].helps if name in found.keys]
        assert found.english and found.chinese, name
        assert found.english.isascii() or "…" in found.english, name
        assert SHIPPED.line(name).startswith(f"{name}="), name


def test_slugs_of_groups_are_different() -> None:
    slugs = [group.slug for group in SHIPPED.groups]
    assert len(set(slugs)) == len(slugs)
    assert all(slugs)


def test_the_chinese_part_may_begin_with_a_latin_name() -> None:
    (found,) = [found for group in SHIPPED.groups for found in group.helps if "DebugDumpFiles" in found.keys]
    assert found.english.endswith("0 for none.")
    assert found.chinese.startswith("DebugMode 打开时")


def test_broken_chinese_lines_are_joined_without_blanks() -> None:
    layout = read_layout("# ---------- A / 甲\n\n# English. 第一行，\n# 第二行用\n# 三和 API\n# 四\nX=1\n")
    assert layout.groups[0].helps[0].chinese == "第一行，第二行用三和 API 四"


def test_neighbours_are_those_of_the_same_group_the_nearest_first() -> None:
    layout = read_layout("# ---------- A / 甲\n\n# h\nA=1\nB=2\n\n# h\n#C=3\n\n# ---------- B / 乙\n# h\nD=1\n")
    assert list(layout.before("C")) == ["B", "A"]
    assert list(layout.after("A")) == ["B", "C"]
    assert list(layout.before("D")) == []
    assert list(layout.after("unknown")) == []


@pytest.mark.parametrize(
    ("key", "family"),
    [
        ("TarSysPrompt", "Text"),
        ("VarCity", "Text"),
        ("SarModel1", "Sar"),
        ("SarPrompt12", "Sar"),
        ("Sarah", ""),
        ("Detector1", "Detector"),
        ("Detector_Output1", "Detector"),
        ("SuperDetector_Output3", "SuperDetector"),
        ("Upstream_fast_URL", "Upstream"),
        ("PORT", ""),
    ],
)
def test_families_of_keys(key: str, family: str) -> None:
    assert family_of(key) == family


@pytest.mark.parametrize("text", ["", "no settings at all", "\0\n=\n#", "# ---------- A / 甲"])
def test_odd_examples_do_no_harm(text: str) -> None:
    assert isinstance(read_layout(text), Layout)
