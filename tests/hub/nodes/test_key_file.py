"""``.vcp/node_keys.json``: digests only, whole at every moment, nobody's entry is lost, and faults open nothing."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import ConfigError, NotFoundError
from app.hub.nodes.key_file import (
    LOCK_FILE,
    MAX_FILE_BYTES,
    MAX_NODES,
    NODE_KEYS_FILE,
    NodeKeyFile,
    digest_of,
    limit_node_tools,
    make_node_key,
    parse,
    read_node_keys,
    revoke_node_key,
    same_name,
)
from tests.program import environment

NOW = 1_800_000_000.7
ENTRY = {"digest": digest_of("k"), "made": 1, "tools": None, "revoked": False}


def stored(home: Path) -> Any:
    return json.loads((home / NODE_KEYS_FILE).read_text(encoding="utf-8"))


def put(home: Path, value: Any) -> Path:
    path = home / NODE_KEYS_FILE
    path.parent.mkdir(exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def test_a_key_is_given_once_and_only_its_digest_is_kept(tmp_path: Path) -> None:
    key = make_node_key(tmp_path, "工作站", NOW, tools=("Echo", "Dice", "Echo"))
    text = (tmp_path / NODE_KEYS_FILE).read_text(encoding="utf-8")
    assert len(key) == 43
    assert key not in text
    assert stored(tmp_path) == {
        "工作站": {"digest": digest_of(key), "made": 1_800_000_000, "tools": ["Echo", "Dice"], "revoked": False}
    }
    assert stat.S_IMODE((tmp_path / NODE_KEYS_FILE).stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / ".vcp").stat().st_mode) == 0o700
    assert sorted(path.name for path in (tmp_path / ".vcp").iterdir()) == [NODE_KEYS_FILE.name, LOCK_FILE.name]


def test_a_new_key_takes_the_place_of_the_old_one_and_keeps_the_list_of_tools(tmp_path: Path) -> None:
    first = make_node_key(tmp_path, "a", NOW, tools=("Echo",))
    second = make_node_key(tmp_path, "a", NOW)
    (entry,) = read_node_keys(tmp_path).keys.values()
    assert (entry.digest, entry.tools) == (digest_of(second), ("Echo",))
    assert first != second
    make_node_key(tmp_path, "a", NOW, any_tool=True)
    assert read_node_keys(tmp_path).keys["a"].tools is None


def test_a_revoked_node_stays_listed_and_comes_back_with_another_key_and_its_old_list(tmp_path: Path) -> None:
    old = make_node_key(tmp_path, "a", NOW, tools=("Echo",))
    revoke_node_key(tmp_path, "a")
    revoke_node_key(tmp_path, "a")
    assert read_node_keys(tmp_path).keys["a"].revoked
    with pytest.raises(NotFoundError):
        limit_node_tools(tmp_path, "a", None)
    new = make_node_key(tmp_path, "a", NOW)
    entry = read_node_keys(tmp_path).keys["a"]
    assert (entry.revoked, entry.tools, entry.digest == digest_of(new), new == old) == (False, ("Echo",), True, False)


def test_a_list_of_tools_changes_without_a_new_key(tmp_path: Path) -> None:
    make_node_key(tmp_path, "a", NOW)
    before = stored(tmp_path)["a"]
    limit_node_tools(tmp_path, "a", ("X", "Y"))
    assert stored(tmp_path)["a"] == {**before, "tools": ["X", "Y"]}
    limit_node_tools(tmp_path, "a", ())
    assert stored(tmp_path)["a"] == {**before, "tools": []}, "an empty list lets no tool in; it is not null"
    limit_node_tools(tmp_path, "a", None)
    assert stored(tmp_path)["a"] == before


@pytest.mark.parametrize("name", ["nobody", "a#b", "", "\ud800"])
def test_a_node_that_has_no_key_can_neither_be_limited_nor_revoked(tmp_path: Path, name: str) -> None:
    for change in (lambda: revoke_node_key(tmp_path, name), lambda: limit_node_tools(tmp_path, name, None)):
        with pytest.raises(NotFoundError):
            change()
    assert not (tmp_path / NODE_KEYS_FILE).exists()


@pytest.mark.parametrize(
    ("name", "tools"),
    [("a#b", None), ("../a", None), ("", None), ("a", ("",)), ("a", ("x#y",)), ("a", ("x\ny",)), ("a", ("x" * 129,))],
)
def test_names_that_cannot_be_used_are_refused_before_anything_is_written(
    tmp_path: Path, name: str, tools: tuple[str, ...] | None
) -> None:
    with pytest.raises(ConfigError):
        make_node_key(tmp_path, name, NOW, tools=tools)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text", ["{", "[]", "null", '"x"', "", "\x00" * 9, '{"a": {}', "[" * 100_000, '{"a": ' + "9" * 5000 + "}"]
)
def test_a_file_that_cannot_be_used_is_never_written_over(tmp_path: Path, text: str) -> None:
    path = put(tmp_path, text)
    for change in (
        lambda: make_node_key(tmp_path, "a", NOW),
        lambda: revoke_node_key(tmp_path, "a"),
        lambda: read_node_keys(tmp_path),
    ):
        with pytest.raises(ConfigError, match="cannot be used"):
            change()
    assert path.read_text(encoding="utf-8") == text


def test_a_file_that_is_too_large_or_no_file_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path, " " * (MAX_FILE_BYTES + 1))
    with pytest.raises(ConfigError, match="larger"):
        make_node_key(tmp_path, "a", NOW)
    path.unlink()
    path.mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        make_node_key(tmp_path, "a", NOW)


@pytest.mark.parametrize(
    "faulty",
    [
        None,
        [],
        "x",
        {},
        {**ENTRY, "digest": "K"},
        {**ENTRY, "digest": ENTRY["digest"].upper()},  # type: ignore[attr-defined]  # a text
        {**ENTRY, "digest": None},
        {**ENTRY, "digest": f"{ENTRY['digest']}\n"},
        {**ENTRY, "tools": "Echo"},
        {**ENTRY, "tools": [1]},
        {**ENTRY, "tools": {}},
        {**ENTRY, "revoked": 0},
        {**ENTRY, "revoked": "false"},
        {name: value for name, value in ENTRY.items() if name != "revoked"},
        {name: value for name, value in ENTRY.items() if name != "tools"},
    ],
)
def test_a_faulty_entry_opens_nothing_and_loses_only_itself_also_when_the_file_is_changed(
    tmp_path: Path, faulty: Any
) -> None:
    put(tmp_path, {"bad": faulty, "good": ENTRY})
    read = read_node_keys(tmp_path)
    assert (list(read.keys), len(read.problems)) == (["good"], 1)
    assert "'bad'" in read.problems[0]
    make_node_key(tmp_path, "new", NOW)
    assert stored(tmp_path)["bad"] == faulty
    assert stored(tmp_path)["good"] == ENTRY


def test_a_name_in_the_file_that_no_node_can_have_opens_nothing(tmp_path: Path) -> None:
    read = parse(json.dumps({"a#b": ENTRY, "\ud800": ENTRY, "": ENTRY}).encode())
    assert (read.keys, len(read.problems)) == ({}, 3)
    put(tmp_path, json.dumps({"\ud800": ENTRY}))
    make_node_key(tmp_path, "a", NOW)
    assert list(stored(tmp_path)) == ["\ud800", "a"]


@pytest.mark.parametrize("made", [None, "x", True, -1, 1e400, [], float("nan")])
def test_a_strange_time_only_spoils_what_people_read(made: Any) -> None:
    read = parse(json.dumps({"a": {**ENTRY, "made": made}}).encode())
    assert (read.keys["a"].made, read.problems) == (0.0, ())


def test_more_nodes_than_there_may_be_are_refused(tmp_path: Path) -> None:
    put(tmp_path, {f"n{number}": ENTRY for number in range(MAX_NODES)})
    with pytest.raises(ConfigError, match="nodes with a key already"):
        make_node_key(tmp_path, "one-more", NOW)
    make_node_key(tmp_path, "n1", NOW)
    with pytest.raises(ValueError, match="more than"):
        parse(json.dumps({f"n{number}": ENTRY for number in range(MAX_NODES + 1)}).encode())


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["a", "digest", "made", "tools", "revoked", "#"]), inner, max_size=5)
        ),
        max_leaves=6,
    )
)
def test_whatever_json_the_file_holds_it_is_read_or_refused(value: Any) -> None:
    try:
        read = parse(json.dumps(value).encode())
    except ValueError:
        return
    assert isinstance(read, NodeKeyFile)
    assert all(len(entry.digest) == 64 for entry in read.keys.values())


@given(st.binary(max_size=60))
def test_whatever_bytes_the_file_holds_they_are_read_or_refused(data: bytes) -> None:
    try:
        parse(data)
    except ValueError:
        return


WRITER = """
import sys
from pathlib import Path
from app.hub.nodes.key_file import make_node_key
for number in range(int(sys.argv[3])):
    make_node_key(Path(sys.argv[1]), f"{sys.argv[2]}{number}", 0)
"""


def test_writers_at_the_same_time_lose_nothing_of_each_other(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen((sys.executable, "-c", WRITER, str(tmp_path), name, "8"), env=environment()) for name in "ab"
    ]
    assert [writer.wait(30) for writer in writers] == [0, 0]
    assert sorted(stored(tmp_path)) == sorted(f"{name}{number}" for name in "ab" for number in range(8))


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_node_key(tmp_path, "a", NOW)
    before = (tmp_path / NODE_KEYS_FILE).read_bytes()

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ConfigError, match="No space left"):
        revoke_node_key(tmp_path, "a")
    assert (tmp_path / NODE_KEYS_FILE).read_bytes() == before
    assert not list((tmp_path / ".vcp").glob("*.tmp"))


@pytest.mark.parametrize(("one", "other"), [("a", "A"), ("Straße", "STRASSE"), ("ａ１", "a1"), ("工作站", "工作站")])
def test_names_that_people_would_take_for_one(one: str, other: str) -> None:
    assert same_name(one) == same_name(other)


def test_other_names_are_other_names() -> None:
    assert len({same_name(name) for name in ("a-1", "a_1", "a.1", "a1")}) == 4
