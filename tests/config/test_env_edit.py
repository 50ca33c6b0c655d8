"""Editing one key changes exactly one value (spec vcp-core 2.1, 8.2 note on quoting; design 6)."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.config.dotenv import assignments, parse, parse_values, with_plain_ends
from app.config.env_edit import EnvEditError, changed_keys, edited, is_key
from app.config.env_layout import Layout, read_layout
from app.config.program_files import EXAMPLE, program_file

SHIPPED_TEXT = program_file(EXAMPLE).read_text(encoding="utf-8")
SHIPPED = read_layout(SHIPPED_TEXT)
NONE = Layout()

LINES = st.sampled_from(
    [
        "A=1",
        "A = two words  # note",
        'A="x # y"',
        'A="l1\nl2"',
        "A='it's'",
        'A="open',
        "A=",
        "A: v",
        "A:",
        "export B='b'",
        "B=`t\nu` # c",
        'B="a \\"b\\" c"',
        "B=a#b",
        "# comment with \" and '",
        "#C=example",
        "# C = 1",
        "stray text",
        "Note:",
        "变量=1",
        "",
        "  ",
        "C.d-e=1",
        "\ufeff",
    ]
)
TEXTS = st.builds(
    lambda lines, end, last: end.join(lines) + (end if last else ""),
    st.lists(LINES, max_size=8),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
)
VALUES = st.one_of(
    st.text(alphabet="ab\"'`#\\nr =\n\r: 中", max_size=12),
    st.sampled_from(["", " ", "D:\\new", 'you are "X" ok', "a#b", "x\ny", "「始」末", "'", '"', "`"]),
)
KEYS = st.sampled_from(["A", "B", "C", "D", "C.d-e", "TarX", "PORT"])


def entries(text: str) -> list[tuple[str, str]]:
    return [(entry.key, entry.value) for entry in parse(text)]


@given(TEXTS, KEYS, VALUES)
@settings(max_examples=400)
@example('A=\n"x"', "A", "1")
@example('A="x\nB=1', "B", 'a"')
@example("A:\r\nB=2", "A", "v")
def test_editing_one_key_changes_exactly_one_value(text: str, key: str, value: str) -> None:
    before = entries(text)
    try:
        after = edited(text, {key: value}, SHIPPED)
    except EnvEditError as error:
        assert error.key == key
        assert " / " in error.message
        return
    value = value.replace("\r\n", "\n").replace("\r", "\n")
    assert parse_values(after)[key] == value
    if any(name == key for name, _ in before):
        last = max(place for place, (name, _) in enumerate(before) if name == key)
        assert entries(after) == [*before[:last], (key, value), *before[last + 1 :]]
    else:
        assert [entry for entry in entries(after) if entry[0] != key] == before


@given(TEXTS, KEYS)
@settings(max_examples=200)
def test_taking_a_key_away_leaves_all_others(text: str, key: str) -> None:
    try:
        after = edited(text, {key: None}, SHIPPED)
    except EnvEditError as error:
        assert error.key == key
        return
    assert entries(after) == [entry for entry in entries(text) if entry[0] != key]


@given(TEXTS, KEYS, VALUES)
@settings(max_examples=150)
def test_lines_of_other_settings_and_comments_stay_to_the_byte(text: str, key: str, value: str) -> None:
    try:
        after = edited(text, {key: value}, NONE)
    except EnvEditError:
        return
    plain, now = with_plain_ends(text), with_plain_ends(after)
    there = [found for found in assignments(plain) if found.entry.key == key]
    if there:
        assert now.startswith(plain[: there[-1].opens])
        assert now.endswith(plain[there[-1].ends :])
    else:
        kept = next(n for n in range(len(plain) + 1) if plain[n:] == now[len(now) - len(plain[n:]) :])
        assert now.startswith(plain[:kept])
    if "\r\n" in text and "\n" not in text.replace("\r\n", ""):
        assert "\n" not in after.replace("\r\n", "")


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("A=1 # why\n", "2", "A=2 # why\n"),
        ("export A = 'x'  # why\r\nB=2\r\n", "y", "export A = 'y'  # why\r\nB=2\r\n"),
        ('A="x"', "y", 'A="y"'),
        ('A="x"', 'say "y"', 'A="say "y""'),
        ("A=1\nA=2\nB=3", "4", "A=1\nA=4\nB=3"),
        ("A=", "v", "A=v"),
        ("A: \nB=1", "v", "A: v \nB=1"),
        ("A=#note", "v", "A=v#note"),
        ("A='a\nb'\nB=1", "c", "A='c'\nB=1"),
        ("A=x", "a # b", 'A="a # b"'),
        ("A=x", "", 'A=""'),
        ("A=x", "l1\nl2", 'A="l1\nl2"'),
        ("A=x\r\n", "l1\nl2", 'A="l1\r\nl2"\r\n'),
        ("A=x", "D:\\new", "A=D:\\new"),
        ("A=x", ' D:\\new "dir"', "A=' D:\\new \"dir\"'"),
    ],
)
def test_values_are_replaced_in_place_in_quotes_that_every_reader_takes_off(
    text: str, value: str, expected: str
) -> None:
    assert edited(text, {"A": value}, NONE) == expected


def test_the_last_of_equal_keys_is_the_one_that_is_edited() -> None:
    assert parse_values(edited("A=1\nB=0\nA=2", {"A": "3"}, NONE)) == {"A": "3", "B": "0"}


def test_a_new_key_goes_below_its_commented_line_of_the_documented_group() -> None:
    text = edited(SHIPPED_TEXT, {"API_URL": "https://api.test", "AdminPassword": "s3cret"}, SHIPPED)
    lines = text.splitlines()
    assert lines[lines.index("API_URL=https://api.test") - 1] == "#API_URL=https://api.example.com"
    assert lines[lines.index("AdminPassword=s3cret") - 1] == "#AdminPassword="
    assert len(lines) == len(SHIPPED_TEXT.splitlines()) + 2


def test_a_new_key_goes_beside_its_neighbours_where_it_is_not_mentioned() -> None:
    text = edited("HOST=127.0.0.1\nX=1\n", {"PORT": "7000"}, SHIPPED)
    assert text == "HOST=127.0.0.1\nPORT=7000\nX=1\n"
    assert edited("X=1\nPORT=7000\n", {"HOST": "::1"}, SHIPPED) == "X=1\nHOST=::1\nPORT=7000\n"


def test_a_new_member_of_a_family_goes_behind_the_last_one() -> None:
    assert edited("VarA=1\nX=1\n", {"VarB": "2"}, SHIPPED) == "VarA=1\nVarB=2\nX=1\n"


def test_a_key_that_nobody_knows_goes_to_the_end_behind_a_blank_line() -> None:
    assert edited("A=1\nNote:", {"Q": "2"}, NONE) == "A=1\nNote:\n\nQ=2\n"
    assert edited("", {"Q": "2"}, NONE) == "Q=2\n"


def test_a_commented_line_inside_a_text_of_many_lines_is_no_place() -> None:
    text = 'VarGuide="first\n#PORT=1\nlast"\n'
    after = edited(text, {"PORT": "2"}, SHIPPED)
    assert parse_values(after) == {"VarGuide": "first\n#PORT=1\nlast", "PORT": "2"}


def test_a_documented_key_that_is_taken_away_leaves_its_example_and_the_note() -> None:
    assert edited("PORT=7000 # mine\nX=1\n", {"PORT": None}, SHIPPED) == "#PORT=6005 # mine\nX=1\n"
    assert edited("PORT=1\nX=1\nPORT=2\n", {"PORT": None}, SHIPPED) == "X=1\n#PORT=6005\n"


def test_no_secret_stays_behind_when_it_is_taken_away() -> None:
    after = edited("Key=very-secret\nAPI_Key='also\nsecret'\nVarX=1\n", {"Key": None, "API_Key": None}, SHIPPED)
    assert "secret" not in after
    assert parse_values(after) == {"VarX": "1"}


def test_a_member_of_a_family_goes_without_a_trace() -> None:
    assert edited('A=1\nVarX="a\nb"\nB=2\n', {"VarX": None}, SHIPPED) == "A=1\nB=2\n"


@pytest.mark.parametrize("key", ["变量", "A B", "A=B", "", "A\n", "x" * 300])
def test_names_that_are_no_keys_are_refused(key: str) -> None:
    assert not is_key(key)
    with pytest.raises(EnvEditError):
        edited("", {key: "1"}, NONE)


@pytest.mark.parametrize("value", ["a\0b", "'\"`#\\n"])
def test_values_that_cannot_be_written_are_refused_by_name(value: str) -> None:
    with pytest.raises(EnvEditError) as refused:
        edited("A=1", {"A": value}, NONE)
    assert refused.value.key == "A"
    assert value not in refused.value.message


def test_too_many_changes_are_refused() -> None:
    with pytest.raises(EnvEditError):
        edited("", {f"K{n}": "1" for n in range(3000)}, NONE)


def test_keys_that_differ_between_two_texts() -> None:
    assert list(changed_keys("A=1\nB=2\nC=3", "B=3\nC='3'\nD=4")) == ["B", "D", "A"]
