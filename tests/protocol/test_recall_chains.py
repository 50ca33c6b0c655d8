"""The vectors C1 to C7 of memory.md 10.2, in our reading."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.protocol.recall import ChainDeclaration, read_declaration
from app.protocol.recall_chains import MAX_K, MAX_STAGES, ChainCall, read_chain_call


@pytest.mark.parametrize(
    ("vector", "text", "call"),
    [
        ("C1", "", ChainCall()),
        ("C2", "::Group:2-1-1-1-1", ChainCall(group=True, ks=(2, 1, 1, 1, 1))),
        ("C3", ":creative_writing::Group:2-1-1-1", ChainCall("creative_writing", (2, 1, 1, 1), group=True)),
        ("C4", "::Auto:0.5::Group", ChainCall(auto=True, threshold=0.5, group=True)),
        ("C5", ":Auto::Group:3-x-0-2", ChainCall(auto=True, group=True, ks=(3, 1, 1, 2))),
        ("C6", ":my-theme", ChainCall("my-theme")),
        ("C7", "::Group::Rerank:1-1", ChainCall(group=True, rerank=True, ks=(1, 1))),
    ],
)
def test_vectors_of_chain_parameters(vector: str, text: str, call: ChainCall) -> None:
    assert read_chain_call(text) == (call, ()), vector
    declaration = read_declaration(f"[[VCP元思考{text}]]")
    assert isinstance(declaration, ChainDeclaration)
    assert declaration.call == call


def test_auto_takes_names_to_choose_among_or_to_leave_out() -> None:
    assert read_chain_call("::Auto:0.7:Coding,investigation")[0] == ChainCall(
        auto=True, threshold=0.7, only=("Coding", "investigation")
    )
    assert read_chain_call("::auto:!disco")[0] == ChainCall(auto=True, without=("disco",))


def test_a_theme_that_begins_with_auto_is_a_theme() -> None:
    assert read_chain_call(":automation")[0] == ChainCall("automation")


def test_a_second_theme_is_warned_of() -> None:
    assert read_chain_call(":a:b") == (ChainCall("a"), ("b",))
    assert read_chain_call("::Auto::b") == (ChainCall(auto=True), ("b",))


def test_one_number_is_a_sequence_and_numbers_are_bounded() -> None:
    assert read_chain_call(":3")[0].ks == (3,)
    assert read_chain_call(":" + "9" * 5000)[0].ks == (MAX_K,)
    assert len(read_chain_call(":" + "1-" * 5000 + "1")[0].ks) == MAX_STAGES


@given(st.text(alphabet=":：-!,.0123456789autogrpx ", max_size=60))
def test_no_parameters_raise(text: str) -> None:
    call, _ = read_chain_call(text)
    assert 0 <= call.threshold <= 1
    assert all(1 <= k <= MAX_K for k in call.ks)
