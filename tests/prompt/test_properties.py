from __future__ import annotations

import re
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import PromptLimitError
from app.prompt.limits import PromptLimits
from app.prompt.settings import DetectorRule, PromptSettings, SarRule
from tests.prompt.installation import Home, recall_source, static_source

ROLES = st.sampled_from(["system", "developer", "user", "assistant", "tool"])
TOKENS = st.sampled_from(
    [
        *(
            "{{A}}",
            "{{B}}",
            "{{agent:C}}",
            "{{Date}}",
            "{{Port}}",
            "{{VarA}}",
            "<<VarB>>",
            "{{VarC}}",
            "{{SarPrompt1}}",
        ),
        *(
            "{{X日记本}}",
            "[[X日记本]]",
            "{{Static}}",
            "{{VCPAllTools}}",
            "{{",
            "}}",
            "<<",
            ">>",
            "Var",
            "[系统",
            "x",
            " ",
            "\n",
        ),
    ]
)
TEMPLATES = st.lists(TOKENS, max_size=6).map("".join)
SMALL = PromptLimits(characters=20_000, insertions=500)


def fresh_home(folder: str) -> Home:
    return Home(Path(folder))


@given(st.lists(st.tuples(ROLES, st.text().filter(lambda text: "{{" not in text and "<<" not in text)), max_size=5))
@settings(max_examples=60)
def test_text_without_markers_is_unchanged(messages: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = fresh_home(folder)
        home.agents(Nova="nova")
        body = [{"role": role, "content": text} for role, text in messages]
        expanded = home.expand(body, PromptSettings(variables=(("VarA", "a"),), port=1), sources=[static_source(S="s")])
    assert expanded.messages == body
    assert expanded.media


@given(
    st.lists(TEMPLATES, min_size=3, max_size=3),
    st.lists(TEMPLATES, min_size=3, max_size=3),
    TEMPLATES,
    st.lists(st.booleans(), min_size=3, max_size=3),
    st.booleans(),
    ROLES,
)
@settings(max_examples=120)
def test_any_web_of_agents_and_variables_comes_to_an_end(
    agents: list[str], values: list[str], text: str, in_files: list[bool], any_order: bool, role: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = fresh_home(folder)
        home.agents(**dict(zip("ABC", agents, strict=True)))
        variables = []
        for name, value, in_file in zip("ABC", values, in_files, strict=True):
            home.write(f"TVStxt/{name}.txt", value)
            variables.append((f"Var{name}", f"{name}.txt" if in_file else value))
        prompt = PromptSettings(
            variables=tuple(variables),
            sar=(SarRule("1", ("gpt-y",), values[0]),),
            detectors=(DetectorRule("Detector1", "x", "xx"),),
            expand_agents_in_all_roles=True,
            resolve_variables_in_any_order=any_order,
            port=1,
            limits=SMALL,
        )
        try:
            expanded = home.expand([{"role": role, "content": text}], prompt)
        except PromptLimitError as error:
            assert "'" in error.message
        else:
            pieces = [piece.text for origin in expanded.origins[0] for piece in origin.pieces]
            assert "".join(pieces) == expanded.messages[0]["content"]


@given(st.text(), TEMPLATES, TEMPLATES, st.booleans())
@settings(max_examples=80)
def test_data_arrives_byte_for_byte(odd: str, template: str, value: str, any_order: bool) -> None:
    data = template + odd + template
    with tempfile.TemporaryDirectory() as folder:
        home = fresh_home(folder)
        home.agents(A="agent", B="{{A}}")
        prompt = PromptSettings(variables=(("VarA", value), ("VarB", "b")), resolve_variables_in_any_order=any_order)
        sources = [static_source(Static=data), recall_source(X=data)]
        text = home.text("<1>{{Static}}<2>[[X日记本]]<3>", prompt, sources=sources)
    assert text == f"<1>{data}<2>{data}<3>"


VALUE_TOKENS = st.sampled_from(
    ["{{VarA}}", "<<VarA>>", "{{VarB}}", "<<VarB>>", "{{VarC}}", "{{Var", "A", "B", "}}", "<<Var", ">>", "{", "x"]
)
VALUES = st.lists(VALUE_TOKENS, min_size=1, max_size=5).map("".join)


@given(st.lists(VALUES, min_size=3, max_size=3), VALUES)
@settings(max_examples=150)
def test_variables_act_as_one_replacement_after_the_other_in_file_order(values: list[str], text: str) -> None:
    variables = tuple(zip(("VarC", "VarA", "VarB"), values, strict=True))
    expected = text
    for name, value in variables:
        expected = re.sub(f"{{{{{name}}}}}|<<{name}>>", lambda match, value=value: value, expected)
    with tempfile.TemporaryDirectory() as folder:
        assert fresh_home(folder).text(text, PromptSettings(variables=variables)) == expected
