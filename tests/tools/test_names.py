"""Names for doors that allow few characters, and those that commands bring (D68, D69)."""

from __future__ import annotations

import hashlib
import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.extend import ToolCommand
from app.tools.names import MAX_CHARS, LostName, RestrictedNames, is_restricted, settle

LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}")
NAMES = st.text(alphabet=st.sampled_from("aB1_-. #文\ud83d😀\n"), max_size=6) | st.text(
    alphabet="a.", min_size=60, max_size=70
)
SETS = st.lists(NAMES, max_size=30)


@pytest.mark.parametrize(
    ("name", "restricted"),
    [
        ("Echo", "Echo"),
        ("novel_read", "novel_read"),
        ("FileOperator.ReadFile", "FileOperator__ReadFile"),
        ("weather.get_now", "weather__get_now"),
        ("attic#Echo", "attic_Echo"),
        ("Wan2.1Video", "Wan2__1Video"),
        ("a" * MAX_CHARS, "a" * MAX_CHARS),
    ],
)
def test_dots_become_two_underscores_and_other_characters_one(name: str, restricted: str) -> None:
    assert RestrictedNames([name]).restricted(name) == restricted


def test_a_legal_name_stays_and_those_that_would_become_it_or_each_other_get_a_digest_of_their_own() -> None:
    names = RestrictedNames(["a__b", "a.b", "x y", "x#y", "天气", "时间"])
    assert names.restricted("a__b") == "a__b"
    told = [names.restricted(name) for name in ("a.b", "x y", "x#y", "天气", "时间")]
    assert len(set(told)) == 5
    assert all(re.fullmatch(r"(a__b|x_y|__)_[0-9a-f]{10}", name) for name in told)


def test_an_overlong_name_keeps_its_beginning_and_gets_a_digest() -> None:
    one, other = "a" * 65, "a" * 64 + "b"
    names = RestrictedNames([one, other])
    assert names.restricted(one)[:53] == names.restricted(other)[:53] == "a" * 53
    assert names.restricted(one) != names.restricted(other)
    assert RestrictedNames([one]).restricted(one) == names.restricted(one), "whoever else is there"
    digest = hashlib.sha256(one.encode()).hexdigest()
    assert names.restricted(one) == f"{'a' * 53}_{digest[:10]}", "clients keep it over versions of the program"


def test_a_name_that_imitates_a_digest_takes_nothing_from_its_owner() -> None:
    wanted = RestrictedNames(["a.b", "a#b", "a__b", "a_b"]).restricted("a.b")
    names = RestrictedNames(["a.b", "a__b", wanted])
    assert names.restricted(wanted) == wanted
    assert names.full(names.restricted("a.b")) == "a.b" != wanted


def test_a_tool_from_outside_cannot_take_the_form_of_a_local_one() -> None:
    alone = RestrictedNames(["a.b"])
    both = RestrictedNames(["a.b"], ["a__b", "a.b", "a#_b"])
    assert both.restricted("a.b") == alone.restricted("a.b") == "a__b"
    assert both.full("a__b") == "a.b"
    assert both.restricted("a__b") != "a__b"


def test_what_no_name_became_leads_nowhere() -> None:
    names = RestrictedNames(["a.b"])
    assert names.full("a.b") is None
    assert names.full("a__c") is None
    with pytest.raises(KeyError):
        names.restricted("a__b")


@given(SETS, SETS)
def test_every_form_is_legal_and_leads_back_to_its_name(local: list[str], far: list[str]) -> None:
    names = RestrictedNames(local, far)
    every = {*local, *far}
    forms = {name: names.restricted(name) for name in every}
    assert all(LEGAL.fullmatch(form) for form in forms.values())
    assert len(set(forms.values())) == len(every)
    assert all(names.full(form) == name for name, form in forms.items())
    assert all(forms[name] == name for name in local if is_restricted(name))


@given(SETS, SETS, st.randoms(use_true_random=False))
def test_neither_the_order_nor_a_later_group_changes_a_form(local: list[str], far: list[str], random: Random) -> None:
    names = RestrictedNames(local)
    mixed = list(local)
    random.shuffle(mixed)
    again = RestrictedNames(mixed, far)
    assert [names.restricted(name) for name in local] == [again.restricted(name) for name in local]


def own(*names: str | None) -> tuple[ToolCommand, ...]:
    return tuple(ToolCommand(f"c{n}", "", "", tool_name=name) for n, name in enumerate(names))


def test_a_tools_name_beats_that_of_a_command_and_of_commands_the_first_has_it() -> None:
    settled, lost = settle(
        [("A", own("read", "B", None)), ("B", own("read", "write", "write", "B"))],
        [("write", own("far", "A")), ("C", own("far"))],
    )
    assert {tool: [command.tool_name for command in commands] for tool, commands in settled.items()} == {
        "A": ["read", None, None],
        "B": [None, "write", None, None],
        "write": ["far", None],
        "C": [None],
    }
    assert lost == [
        LostName("A", "B", "B"),
        LostName("B", "read", "A"),
        LostName("B", "write", "B"),
        LostName("B", "B", "B"),
        LostName("write", "A", "A"),
        LostName("C", "far", "write"),
    ]


@pytest.mark.parametrize("name", ["a.b", "a#b", "", " ", "读", "a" * 65, "a\n"])
def test_a_name_that_some_door_would_have_to_change_is_none(name: str) -> None:
    settled, (fault,) = settle([("A", own(name))])
    assert settled["A"][0].tool_name is None
    assert "64 letters" in fault.why
