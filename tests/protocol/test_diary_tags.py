"""Tags of diary files as they are read (memory.md 3.5, 10.5 G1 to G9)."""

from __future__ import annotations

import pytest

from app.protocol.diary_tags import MAX_TAGS, find_tag_line, fold_tag, read_tags
from tests.growth import grows_in_proportion


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        pytest.param("x\ntag:A，B、C", ("A", "B", "C"), id="G1"),
        pytest.param("x\nTag: A ,B,  C", ("A", "B", "C"), id="G2"),
        pytest.param("x\nTag：消费降级，鸭货", ("消费降级", "鸭货"), id="G3"),
        pytest.param("x\nTag: 时间：早上，地点", ("时间早上", "地点"), id="G4"),
        pytest.param("x\nTag: a\n", ("a",), id="G5"),
        pytest.param("Tag: first\nbody\nTag: second, third", ("second", "third"), id="G7"),
        pytest.param("hashTag: foo, bar", (), id="G9"),
        pytest.param("x\nTags: a; b；c|d｜e", ("a", "b", "c", "d", "e"), id="separators"),
        pytest.param("x\n标签：河边、散步\r\n", ("河边", "散步"), id="chinese"),
        pytest.param("Tag:\n a, b", (), id="never the next line"),
        pytest.param("\ufeffTag: a,,  ,b", ("a", "b"), id="empty members"),
        pytest.param("x\nTag: ＡＢＣ, abc, ABC ", ("ＡＢＣ",), id="the same folded, as it was written first"),
        pytest.param("", (), id="nothing"),
        pytest.param("Tagged: x", (), id="another word"),
    ],
)
def test_tags_are_read_from_the_last_tag_line(text: str, tags: tuple[str, ...]) -> None:
    assert read_tags(text) == tags


def test_g8_words_of_the_super_list_are_cut_out_longest_first_and_the_list_drops_tags() -> None:
    text = "Tag: VCP, 莱恩主人的偏好, 小克, 主人"
    assert read_tags(text, ["vcp"], ["主人", "莱恩主人", "小克"]) == ("的偏好",)


def test_blacklists_are_plain_words_and_blank_ones_change_nothing() -> None:
    assert read_tags("Tag: a.c, abc", (" ", "x"), ("", "a.c")) == ("abc",)


def test_a_note_has_thirty_tags_at_most_and_a_sentence_is_none() -> None:
    assert len(read_tags("Tag: " + ", ".join(f"t{n}" for n in range(50)))) == MAX_TAGS
    assert read_tags("Tag: " + "长" * 101 + ", b") == ("b",)


def test_identity_of_tags_is_their_folded_form() -> None:
    assert fold_tag(" Ｍoon  Light ") == fold_tag("moon light") == "moon light"


def test_the_place_of_the_tag_line_is_told() -> None:
    assert find_tag_line("body\n  Tag: a\n") == (5, " a")
    assert find_tag_line("body") is None


def test_eight_megabytes_are_read_in_linear_time() -> None:
    def read(size: int) -> None:
        assert read_tags("\u3000" * 2 * size + "\n" * 2 * size + "tag" * size) == ()
        assert read_tags("Tag: a\n" * (size // 3)) == ("a",)

    assert grows_in_proportion(read, 62_500)
