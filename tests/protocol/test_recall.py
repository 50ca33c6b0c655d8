"""The vectors D1 to D22 of memory.md 10.1, the table of 2.5, and what no text may do to the tokenizer (11.20)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.protocol.recall import (
    DECLARATION,
    ChainDeclaration,
    Form,
    LicenceToken,
    NotebookDeclaration,
    find_declarations,
    read_declaration,
)
from app.protocol.recall_modifiers import MAX_FILES, MAX_MULTIPLIER, Decay, Modifiers, RoleTerm, read_modifiers
from tests.growth import grows_in_proportion


def found(text: str) -> list[NotebookDeclaration]:
    return [item for _, item in find_declarations(text) if isinstance(item, NotebookDeclaration)]


def only(text: str) -> NotebookDeclaration:
    (declaration,) = found(text)
    assert declaration.text == text
    return declaration


@pytest.mark.parametrize(
    ("vector", "text", "form", "names", "modifiers"),
    [
        ("D1", "[[小克日记本]]", Form.FRAGMENTS, ("小克",), Modifiers()),
        ("D2", "[[小克日记本:1.5]]", Form.FRAGMENTS, ("小克",), Modifiers(multiplier=1.5)),
        (
            "D3",
            "[[小克日记本:1.2::Time::Group::Rerank]]",
            Form.FRAGMENTS,
            ("小克",),
            Modifiers(multiplier=1.2, time=True, group=True, rerank=True),
        ),
        ("D4", "[[小克日记本::TagMemo0.65]]", Form.FRAGMENTS, ("小克",), Modifiers(tags=True, tag_boost=0.65)),
        ("D5", "[[小克日记本::TagMemo]]", Form.FRAGMENTS, ("小克",), Modifiers(tags=True, tag_boost=None)),
        (
            "D6",
            "《《知识库日记本::TagMemo0.85::Rerank》》",
            Form.GATED_FRAGMENTS,
            ("知识库",),
            Modifiers(tags=True, tag_boost=0.85, rerank=True),
        ),
        (
            "D7",
            "《《MusicDiary日记本:2::Group》》",
            Form.GATED_FRAGMENTS,
            ("MusicDiary",),
            Modifiers(multiplier=2, group=True),
        ),
        ("D8", "<<VCP开发日记本>>", Form.GATED_FULL, ("VCP开发",), Modifiers()),
        ("D9", "<<VCP开发日记本::Last5>>", Form.GATED_FULL, ("VCP开发",), Modifiers(last=5)),
        ("D10", "[[A|B日记本:1.5]]", Form.FRAGMENTS, ("A", "B"), Modifiers(multiplier=1.5)),
        ("D11", "[[小克日记本::Time:2]]", Form.FRAGMENTS, ("小克",), Modifiers(time=True, multiplier=2)),
        (
            "D12",
            "[[小克日记本::TagMemo0.65:1.5]]",
            Form.FRAGMENTS,
            ("小克",),
            Modifiers(tags=True, tag_boost=0.65, multiplier=1.5),
        ),
        ("D13", "[[小克日记本:0]]", Form.FRAGMENTS, ("小克",), Modifiers(multiplier=0)),
        ("D13", "[[小克日记本:.5]]", Form.FRAGMENTS, ("小克",), Modifiers(multiplier=0.5)),
        ("D13", "[[小克日记本: 1.5]]", Form.FRAGMENTS, ("小克",), Modifiers(multiplier=1.5)),
        ("D19", "[[小克日记本::time]]", Form.FRAGMENTS, ("小克",), Modifiers(time=True)),
        ("D20", "[[小克日记本::AIMemo]]", Form.FRAGMENTS, ("小克",), Modifiers(ai_memo=True)),
    ],
)
def test_vectors_of_declarations(
    vector: str, text: str, form: Form, names: tuple[str, ...], modifiers: Modifiers
) -> None:
    declaration = only(text)
    assert (declaration.form, declaration.notebooks, declaration.modifiers) == (form, names, modifiers), vector
    assert declaration.warnings == ()


def test_d14_an_opener_without_its_closer_is_text() -> None:
    (declaration,) = found("[[未闭合日记本 和 [[小克日记本::Time]]")
    assert (declaration.name, declaration.modifiers) == ("小克", Modifiers(time=True))


def test_d15_two_declarations_on_a_line() -> None:
    assert [item.name for item in found("[[公共日记本::Time::Group]] 和 [[Nova日记本]]")] == ["公共", "Nova"]


def test_d16_a_name_never_holds_brackets() -> None:
    assert list(find_declarations("文[[foo]]bar日记本]]")) == []


def test_d17_a_word_counts_as_a_whole_and_others_are_warned_of() -> None:
    declaration = only("[[小克日记本::Timeline]]")
    assert declaration.modifiers == Modifiers()
    assert declaration.warnings == ("Timeline",)


def test_d18_a_chain_is_a_chain_only() -> None:
    ((_, declaration),) = find_declarations("[[VCP元思考]]日记本]]")
    assert isinstance(declaration, ChainDeclaration)


def test_d20_the_licence_token_is_found_in_any_case() -> None:
    tokens = [item for _, item in find_declarations("[[AIMemo=True]] … [[aimemo=true]] [[小克日记本::AIMemo]]")]
    assert [type(token) for token in tokens] == [LicenceToken, LicenceToken, NotebookDeclaration]


def test_d22_identical_repeats_are_equal_however_they_are_written() -> None:
    first, second, other = found("[[小克日记本::Time::Group]] [[小克日记本::group::TIME]] [[小克日记本::Time]]")
    assert first.asks == second.asks != other.asks


TABLE: list[tuple[str, Modifiers]] = [
    ("::Time0.3", Modifiers(time=True, time_share=0.3)),
    ("::Time7", Modifiers(time=True, time_share=1.0)),
    ("::TagMemo+", Modifiers(tags=True, tag_rerank=0.6)),
    ("::TagMemo+0.3", Modifiers(tags=True, tag_rerank=0.3)),
    ("::TagMemo0.5+0.3", Modifiers(tags=True, tag_boost=0.5, tag_rerank=0.3)),
    ("::RiverMemo", Modifiers(tags=True)),
    ("::Rerank+", Modifiers(rerank=True, rerank_fusion=0.5)),
    ("::Rerank+0.7", Modifiers(rerank=True, rerank_fusion=0.7)),
    ("::BM25", Modifiers(bm25=0.6)),
    ("::BM250.4", Modifiers(bm25=0.4)),
    ("::BM25+", Modifiers(bm25=0.6, bm25_bodies=True)),
    ("::BM25+0.4", Modifiers(bm25=0.4, bm25_bodies=True)),
    ("::TimeDecay", Modifiers(decay=Decay())),
    ("::TimeDecay30/0.5/甲,乙", Modifiers(decay=Decay(30, 0.5, ("甲", "乙")))),
    ("::TimeDecay7", Modifiers(decay=Decay(7))),
    ("::TimeDecay/0.2", Modifiers(decay=Decay(30, 0.2))),
    ("::TimeDecay7//甲", Modifiers(decay=Decay(7, 0.5, ("甲",)))),
    ("::TimeDecay0", Modifiers(decay=Decay())),
    ("::Truncate0.4", Modifiers(truncate=0.4)),
    ("::Last", Modifiers(last=10)),
    ("::Last25", Modifiers(last=25)),
    ("::Last0", Modifiers(last=1)),
    ("::Random", Modifiers(random=1)),
    ("::Random3", Modifiers(random=3)),
    ("::Expand::Associate::Base64Memo", Modifiers(expand=True, associate=True, media=True)),
    ("::AIMemo:preset", Modifiers(ai_memo=True, ai_memo_preset="preset")),
    ("::AIMemo+:preset:2", Modifiers(ai_memo=True, ai_memo_recalls=True, ai_memo_preset="preset", multiplier=2)),
    ("::AIMemo:1.5", Modifiers(ai_memo=True, multiplier=1.5)),
    ("::AIMemo:Time", Modifiers(ai_memo=True, time=True)),
    ("：：Time：2", Modifiers(time=True, multiplier=2)),
    (" ::Time ", Modifiers(time=True)),
    (
        "::RoleValve@User>3&@Assistant|@system<=1",
        Modifiers(valve=((RoleTerm("user", ">", 3), RoleTerm("assistant", ">=", 1)), (RoleTerm("system", "<=", 1),))),
    ),
]


@pytest.mark.parametrize(("text", "modifiers"), TABLE)
def test_the_whole_table_of_modifiers_in_every_form(text: str, modifiers: Modifiers) -> None:
    assert read_modifiers(text) == (modifiers, ())
    for form in Form:
        opener, closer = form.value, {"{{": "}}", "[[": "]]", "<<": ">>", "《《": "》》"}[form.value]
        assert only(f"{opener}X日记本{text}{closer}").modifiers == modifiers


@pytest.mark.parametrize(
    "text",
    [
        "::Timeline",
        "::Truncate",
        "::Time+",
        "::Group2",
        "::RoleValve",
        "::RoleValve@@",
        "::RoleValve@User>>",
        "::？",
        "::x",
    ],
)
def test_what_is_not_known_is_warned_of_and_changes_nothing(text: str) -> None:
    modifiers, warnings = read_modifiers(text)
    assert modifiers == Modifiers()
    assert warnings == (text.strip(":"),)


def test_a_second_multiplier_and_a_rest_behind_a_number_are_warned_of() -> None:
    assert read_modifiers(":1.5.2:3") == (Modifiers(multiplier=1.5), (".2", "3"))


def test_numbers_are_bounded() -> None:
    assert read_modifiers(":" + "9" * 5000)[0].multiplier == MAX_MULTIPLIER
    assert read_modifiers("::Last" + "9" * 5000)[0].last == MAX_FILES


@pytest.mark.parametrize(
    ("counts", "through"),
    [({"user": 4, "assistant": 1}, True), ({"user": 3, "assistant": 1}, False), ({"user": 4}, False), ({}, False)],
)
def test_role_valves_count_messages(counts: dict[str, int], through: bool) -> None:
    assert read_modifiers("::RoleValve@User>3&@Assistant")[0].lets_through(counts) is through


def test_and_binds_tighter_than_or() -> None:
    valve = read_modifiers("::RoleValve@tool|@user=1&@assistant<1")[0]
    assert valve.lets_through({"tool": 2, "user": 5})
    assert valve.lets_through({"user": 1})
    assert not valve.lets_through({"user": 1, "assistant": 1})


@pytest.mark.parametrize(
    "text",
    [
        "[[日记本]]",
        "[[ | 日记本]]",
        "[[X日记本",
        "[X日记本]",
        "[[X\n日记本]]",
        "[[X日记本\n]]",
        "[[foo]]",
        "{{X日记本}}",
        "{{关于日记本的规则}}",
        "<<X日记本规则>>",
        "《X日记本》",
        "<<X知识库>>",
        "[[AIMemo=False]]",
        "[[X知识库说明]]",
    ],
)
def test_these_are_text(text: str) -> None:
    assert list(find_declarations(text)) == []


def test_other_forms_inside_win_and_the_outer_opener_is_text() -> None:
    assert [item.text for item in found("[[a{{X日记本::Last}}日记本]]")] == ["{{X日记本::Last}}"]
    assert [item.text for item in found("[[[小克日记本]]]")] == ["[[小克日记本]]"]
    assert [item.text for item in found("<<<X日记本>>>")] == ["<<X日记本>>"]
    assert [item.name for item in found("[[《红楼梦》日记本]]")] == ["《红楼梦》"]


def test_the_cold_base_has_two_forms() -> None:
    assert [(item.name, item.cold, item.title) for item in found("[[公司知识库:2]] 《《公司知识库》》")] == [
        ("公司", True, "公司知识库"),
        ("公司", True, "公司知识库"),
    ]


ALPHABET = st.sampled_from(
    [
        *"[]{}<>《》:：|+@&=./0159 \n\r\\$x",
        "日记本",
        "知识库",
        "VCP元思考",
        "AIMemo=True",
        "::Time",
        "TagMemo",
        "[[",
        "]]",
    ]
)


@given(st.lists(ALPHABET, max_size=40).map("".join))
def test_no_text_raises_and_what_is_found_stands_there(text: str) -> None:
    end = 0
    for start, declaration in find_declarations(text):
        assert start >= end
        end = start + len(declaration.text)
        assert text[start:end] == declaration.text
        assert "\n" not in declaration.text
        assert read_declaration(declaration.text) == declaration
        assert DECLARATION.fullmatch(declaration.text)


@pytest.mark.parametrize(
    "unit",
    [
        "[[日记本",
        "[[",
        "{{日记本:",
        "<<日记本",
        "<<X日记本 < ",
        "《《日记本",
        "日记本 ",
        "[[VCP元思考:",
        "[[X日记本::",
        "<日记本>",
        "《日记本",
    ],
)
def test_hostile_texts_take_linear_time(unit: str) -> None:
    def find(size: int) -> None:
        text = unit * size
        list(find_declarations(text))
        list(find_declarations("[[X日记本" + text.replace("[", "").replace("\n", "") + "]]"))

    assert grows_in_proportion(find, 2_500)


def test_one_declaration_has_so_many_modifiers_and_warnings_of_it_are_short() -> None:
    """A hundred thousand of them held the event loop for twenty seconds."""
    declaration = read_declaration(f"[[A日记本{99 * '::Time'}::Group{100_000 * '::Rerank'}]]")
    assert isinstance(declaration, NotebookDeclaration)
    assert (declaration.modifiers.group, declaration.modifiers.rerank) == (True, False)
    assert [len(warning) for warning in declaration.warnings] == [80]
    assert read_modifiers(f"::RoleValve{100_000 * '@User>3&'}@User")[0].valve == ()
    assert len(read_modifiers(f"::RoleValve{99 * '@User>3&'}@User")[0].valve[0]) == 100
    decay = read_modifiers(f"::TimeDecay30/0.5/{100_000 * 'a,'}")[0].decay
    assert decay is not None
    assert len(decay.tags) == 100
    names = "|".join(f"{number}{'x' * 100}" for number in range(70))
    many = read_declaration(f"[[{names}日记本]]")
    assert many is not None
    assert [len(warning) for warning in many.warnings] == [80]
