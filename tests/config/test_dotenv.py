"""The grammar of config.env: spec vcp-core 2.1 and the vectors E1-E18, pitfalls P45, P65, P89."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.config import dotenv
from app.config.dotenv import Entry, parse, parse_values, quote, read
from app.errors import ConfigError


def values(text: str) -> dict[str, str]:
    return {entry.key: entry.value for entry in parse(text)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("A=1#2", {"A": "1"}, id="E1"),
        pytest.param('A="x # y"', {"A": "x # y"}, id="E2"),
        pytest.param(r'A="x\ny"', {"A": "x\ny"}, id="E3"),
        pytest.param(r"A='x\ny'", {"A": r"x\ny"}, id="E4"),
        pytest.param(r'A="a \"b\" c"', {"A": r"a \"b\" c"}, id="E5"),
        pytest.param(r'A="D:\\VCPChat"', {"A": r"D:\\VCPChat"}, id="E6"),
        pytest.param("A: v", {"A": "v"}, id="E7 with a space"),
        pytest.param("A:v", {}, id="E7 without a space"),
        pytest.param("export A=1", {"A": "1"}, id="E8"),
        pytest.param("A = v w  ", {"A": "v w"}, id="E9"),
        pytest.param("A=1\nA=2", {"A": "2"}, id="E10"),
        pytest.param("变量=1\nB=2", {"B": "2"}, id="E11"),
        pytest.param('A="x y\nB=2', {"A": '"x y', "B": "2"}, id="E12"),
        pytest.param('A="l1\nl2"', {"A": "l1\nl2"}, id="E13"),
        pytest.param("A=1\nB=${A}x", {"A": "1", "B": "${A}x"}, id="E14"),
        pytest.param('A="you are "X" ok" # note', {"A": 'you are "X" ok'}, id="E15"),
        pytest.param("A='a' b", {"A": "'a' b"}, id="E16"),
        pytest.param("A-B=1\nA.B=1", {"A-B": "1", "A.B": "1"}, id="E17"),
        pytest.param('A="a#b" "c"', {"A": '"a'}, id="E18"),
    ],
)
def test_vectors_of_the_specification(text: str, expected: dict[str, str]) -> None:
    assert values(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A=1 #2", {"A": "1"}),
        ('A="v" # c', {"A": "v"}),
        ('A="v"# c', {"A": "v"}),
        ("A=`v` # c", {"A": "v"}),
        ("A=", {"A": ""}),
        ("A=#", {"A": ""}),
        ('A=""', {"A": ""}),
        ('A="', {"A": '"'}),
        ("A='", {"A": "'"}),
        ("A=\nB=2", {"A": "", "B": "2"}),
        ("A=  \n\nB=2", {"A": "", "B": "2"}),
        ("  A=1\n\tB=2", {"A": "1", "B": "2"}),
        ("\u3000A\u3000=\u30001\u3000", {"A": "1"}),
        ("export=1", {"export": "1"}),
        ("export  =1", {"export": "1"}),
        ("export  A: 1", {"A": "1"}),
        ("export export=1", {"export": "1"}),
        ("export: 1", {"export": "1"}),
        ("A : v", {}),
        ("A:\nB=2", {"B": "2"}),
        ("A:\tv", {"A": "v"}),
        ("A: # c", {"A": ""}),
        ("Title\n=====\nB=2", {"B": "2"}),
        ("# A=1\n#B=2\nC=3", {"C": "3"}),
        ("A=a=b=c", {"A": "a=b=c"}),
        ("A=x'y", {"A": "x'y"}),
        ("A='it's'", {"A": "it's"}),
        ("A='a\nb' c\nB=2", {"A": "'a", "B": "2"}),
        ("A='#'", {"A": "#"}),
        (r"""A='a\'b' # c""", {"A": r"a\'b"}),
        (r'A="x\"', {"A": "x\\"}),
        ('A="x\\"\nB=2\nC="y"', {"A": "x\\", "B": "2", "C": "y"}),
        ('A="x\\" y"', {"A": 'x\\" y'}),
        (r'A="x\ny', {"A": '"x\ny'}),
        (r"A=x\ny", {"A": r"x\ny"}),
        (r'A="a\rb\tc"', {"A": "a\rb\\tc"}),
        (r'A="a\\nb"', {"A": "a\\\nb"}),
        ('A=\n"x"', {"A": "x"}),
        ('A=\n\n "l1\nl2" # c\nB=2', {"A": "l1\nl2", "B": "2"}),
        ('A=\n"x" y\nB=2', {"A": "", "B": "2"}),
        ("PORT =6005\nURL=http://h:1/x?a=b", {"PORT": "6005", "URL": "http://h:1/x?a=b"}),
        ("http://example.com/x\nB=2", {"B": "2"}),
        ("", {}),
        ("\n\n", {}),
        ("junk", {}),
        ("=1", {}),
    ],
)
def test_corners_of_the_grammar_read_as_the_reference_reads_them(text: str, expected: dict[str, str]) -> None:
    assert values(text) == expected


def test_a_stray_text_block_is_skipped_without_a_word() -> None:
    text = "VarGuide=guide.txt\n——以下是一段说明文字——\n「始」不是变量「末」，请忽略：\n- item one\n{ }\nVarNext=1\n"
    assert values(text) == {"VarGuide": "guide.txt", "VarNext": "1"}


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_any_line_end_leaves_no_carriage_return_in_names_and_values(newline: str) -> None:
    text = newline.join(["A=1", 'B="l1', 'l2" # note', "", "C='q'", "D: v"])
    assert parse(text) == [Entry("A", "1", 1), Entry("B", "l1\nl2", 2), Entry("C", "q", 5), Entry("D", "v", 6)]


def test_a_byte_order_mark_is_no_part_of_the_first_key() -> None:
    assert parse("\ufeffA=1") == [Entry("A", "1", 1)]


def test_every_entry_knows_its_line_and_repeated_keys_are_all_told() -> None:
    text = '\n# c\nA="x\n\ny"\n  B=1\njunk\nA=2'
    assert parse(text) == [Entry("A", "x\n\ny", 3), Entry("B", "1", 6), Entry("A", "2", 8)]


@pytest.mark.parametrize(
    "line",
    ['A="x\n', "A='x\n", 'A="\\"\n', 'A="x" y\nB=\'x\nC=`x\n', "A=\n", 'A="' + '\\"' * 30 + "\n", "a" * 50 + "\n"],
)
def test_a_large_hostile_file_is_read_in_linear_time(line: str) -> None:
    # Quadratic work on this would take minutes, so ending at all is the proof.
    text = line * (400_000 // len(line))
    assert len(parse(text)) <= text.count("\n")
    assert len(parse(text.replace("\n", " "))) <= 1


def test_one_endless_line_of_each_kind_is_read_in_linear_time() -> None:
    for text in ("a" * 1_000_000, "A=" + " " * 1_000_000 + '"', 'A="' + '\\" ' * 500_000, "export " * 200_000):
        assert len(parse(text)) <= 1


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    entries = parse(text)
    assert [entry.line for entry in entries] == sorted(entry.line for entry in entries)


ODD_PIECES = [*"ab \n\r\"'`\\#=变\u3000\ufeff", "\\n", "\\r", '\\"', "${A}"]
ODD_TEXT = st.lists(st.sampled_from(ODD_PIECES), max_size=12).map("".join)


@settings(max_examples=400)
@given(st.text(max_size=30) | ODD_TEXT)
@example("")
@example("\\")
@example("a\\")
@example("\"'`")
@example(" x ")
@example("$& $1 $$")
@example("\r\n")
@example("# no comment")
def test_what_quote_writes_is_read_back(value: str) -> None:
    written = quote(value)
    if written is not None:
        assert parse("K=" + written) == [Entry("K", value, 1)]


@given(st.text(st.characters(exclude_characters="\r\"'`\\", exclude_categories=["Cs"]), max_size=60))
def test_every_value_without_quotes_backslashes_and_carriage_returns_can_be_written(value: str) -> None:
    assert quote(value) is not None


def test_quote_gives_up_only_where_the_grammar_has_no_form() -> None:
    assert quote("plain value") == "plain value"
    assert quote("a # b") == '"a # b"'
    assert quote('say "x" # y') == "'say \"x\" # y'"
    assert quote('it\'s "x" # y') == '`it\'s "x" # y`'
    assert quote("l1\nl2") == '"l1\nl2"'
    assert quote("a\r\nb") == '"a\\r\nb"'
    assert quote("C:\\new # x") == "'C:\\new # x'"
    assert quote("\"'` # all of them") is None


@given(
    st.lists(st.tuples(st.from_regex(r"[A-Za-z_.\-][A-Za-z0-9_.\-]{0,5}", fullmatch=True), ODD_TEXT), max_size=6),
    st.sampled_from(["", "\n", '# it\'s a "note"\n', "杂项文字 = 1\n", "stray ` text\n", '"\n', "'\n"]),
)
def test_written_entries_stay_apart_whatever_stands_between_them(entries: list[tuple[str, str]], noise: str) -> None:
    writable = [(key, value, quote(value)) for key, value in entries]
    text = noise.join(f"{key}={written}\n" for key, _, written in writable if written is not None) + noise
    read_back = [(entry.key, entry.value) for entry in parse(text)]
    assert read_back == [(key, value) for key, value, written in writable if written is not None]


def test_a_plugins_own_crlf_file_with_quotes_and_notes_reads_clean(tmp_path: Path) -> None:
    path = tmp_path / "config.env"
    path.write_bytes("Url=\"http://127.0.0.1:6005\" # local\r\nName='小克'\r\n".encode())
    assert read(path).values() == {"Url": "http://127.0.0.1:6005", "Name": "小克"}


def test_a_missing_file_reads_as_an_empty_one(tmp_path: Path) -> None:
    assert read(tmp_path / "config.env").entries == ()


def test_a_repeated_key_keeps_its_first_place_and_takes_its_last_value(tmp_path: Path) -> None:
    path = tmp_path / "config.env"
    path.write_text("A=1\nB=2\nA=3\n", encoding="utf-8")
    file = read(path)
    assert list(file.values().items()) == [("A", "3"), ("B", "2")]
    assert file.lines() == {"A": 3, "B": 2}


@pytest.mark.parametrize(
    ("encoding", "named", "line"), [("gb18030", "GB18030", 2), ("utf-16", "UTF-16", None), ("utf-16-be", None, None)]
)
def test_other_encodings_of_windows_are_read_with_a_reminder(
    tmp_path: Path, encoding: str, named: str | None, line: int | None
) -> None:
    path = tmp_path / "config.env"
    mark = b"\xfe\xff" if encoding == "utf-16-be" else b""
    path.write_bytes(mark + "A=1\nVarUser=莱恩先生\n".encode(encoding))
    file = read(path)
    assert file.values() == {"A": "1", "VarUser": "莱恩先生"}
    (problem,) = file.problems
    assert (named or "UTF-16") in str(problem)
    assert problem.line == line
    assert str(path) in str(problem)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_utf_8_needs_no_reminder(tmp_path: Path, mark: bytes) -> None:
    path = tmp_path / "config.env"
    path.write_bytes(mark + "VarUser=莱恩".encode())
    assert read(path).values() == {"VarUser": "莱恩"}
    assert read(path).problems == ()


def test_bytes_of_no_encoding_are_refused_with_file_byte_and_line(tmp_path: Path) -> None:
    path = tmp_path / "config.env"
    path.write_bytes(b"A=1\nB=\xff\xff\n")
    with pytest.raises(ConfigError) as caught:
        read(path)
    assert str(path) in caught.value.message
    assert "byte 6 (0xff, line 2)" in caught.value.message


def test_half_a_utf_16_file_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "config.env"
    path.write_bytes(b"\xff\xfeA\x00=")
    with pytest.raises(ConfigError, match="UTF-16"):
        read(path)


def test_a_folder_in_place_of_the_file_is_explained(tmp_path: Path) -> None:
    (tmp_path / "config.env").mkdir()
    with pytest.raises(ConfigError, match="is a folder"):
        read(tmp_path / "config.env")


def test_a_path_that_cannot_be_opened_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be read"):
        read(tmp_path / "file" / "config.env")


def test_a_file_over_the_limit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.env"
    with path.open("wb") as file:
        file.truncate(dotenv.MAX_FILE_BYTES + 1)
    with pytest.raises(ConfigError, match="larger than 16 MiB"):
        read(path)


def test_a_plugins_own_settings_are_read_by_the_grammar_of_the_main_file() -> None:
    assert parse_values('A="x # y" # note\r\nB=1#2\r\nA=last\r\n') == {"A": "last", "B": "1"}
