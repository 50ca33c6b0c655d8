from __future__ import annotations

import os

import pytest

from app.errors import PromptLimitError
from app.prompt.settings import PromptSettings, SarRule
from tests.prompt.installation import Home


def settings(*variables: tuple[str, str], any_order: bool = False, sar: tuple[SarRule, ...] = ()) -> PromptSettings:
    return PromptSettings(variables=variables, resolve_variables_in_any_order=any_order, sar=sar)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{TarA}}{{TarAB}}{{TarNone}}", "aab{{TarNone}}"),
        ("<<TarA>><<TarAB>><<TarNone>>", "aab<<TarNone>>"),
        ("<<VarC>> {{VarC}}", "c c"),
        ("{{{TarA}}} <<<TarA>>>", "{a} <a>"),
        ("{{ TarA }} {{tara}} {TarA} <TarA> << TarA>>", "{{ TarA }} {{tara}} {TarA} <TarA> << TarA>>"),
        ("{{Tar\nA}} {{TarA", "{{Tar\nA}} {{TarA"),
        ("<<公共日记本>> <<Tar日记本>> {{Tar日记本}}", "<<公共日记本>> <<Tar日记本>> d"),
        ("{{Other}}", "{{Other}}"),
    ],
)
@pytest.mark.parametrize("any_order", [False, True])
def test_names_are_exact_in_both_forms(home: Home, text: str, expected: str, any_order: bool) -> None:
    variables = (("TarA", "a"), ("TarAB", "ab"), ("VarC", "c"), ("Tar日记本", "d"))
    assert home.text(text, settings(*variables, any_order=any_order)) == expected


@pytest.mark.parametrize("value", ["$&", "$$", "$1", "$`", "$'", "\\1", "\\g<0>", "{{", "}}", "\\"])
@pytest.mark.parametrize("any_order", [False, True])
def test_values_are_literal(home: Home, value: str, any_order: bool) -> None:
    assert home.text("a{{VarA}}b<<VarA>>", settings(("VarA", value), any_order=any_order)) == f"a{value}b{value}"


def test_values_are_part_of_later_steps(home: Home) -> None:
    variables = (("VarA", "{{Date}} {{VCPAllTools}} {{Port}}"),)
    assert home.text("{{VarA}}", PromptSettings(variables=variables, port=6005)) == (
        "2026/1/5 没有可用的VCP工具描述信息 6005"
    )


def test_a_name_may_be_made_by_another_variable(home: Home) -> None:
    assert home.text("{{Var{{VarA}}}}", settings(("VarA", "B"), ("VarB", "b"))) == "b"
    assert home.text("{{Var{{VarA}}}}", settings(("VarB", "b"), ("VarA", "B"))) == "{{VarB}}"
    assert home.text("{{Var{{VarA}}}}", settings(("VarB", "b"), ("VarA", "B"), any_order=True)) == "b"


@pytest.mark.parametrize("variables", [(("VarA", "{{VarB}}"), ("VarB", "b")), (("VarB", "b"), ("VarA", "{{VarB}}"))])
def test_the_setting_makes_the_order_irrelevant(home: Home, variables: tuple[tuple[str, str], ...]) -> None:
    assert home.text("{{VarA}}<<VarA>>", settings(*variables, any_order=True)) == "bb"


def test_files_are_read_from_their_folder_and_see_all_variables(home: Home) -> None:
    home.write("TVStxt/a.TXT", "[{{VarB}} {{SarPrompt1}} {{Date}}]")
    sar = (SarRule("1", ("gpt-y",), "s.txt"),)
    home.write("TVStxt/s.txt", "sar {{VarB}}")
    assert home.text("{{VarA}}", settings(("VarB", "b"), ("VarA", "a.TXT"), sar=sar)) == "[b sar b 2026/1/5]"


def test_edited_files_are_in_the_next_chat(home: Home) -> None:
    home.write("TVStxt/a.txt", "old")
    assert home.text("{{VarA}}", settings(("VarA", "a.txt"))) == "old"
    home.write("TVStxt/a.txt", "new")
    assert home.text("{{VarA}}", settings(("VarA", "a.txt"))) == "new"
    (home.path / "TVStxt/a.txt").unlink()
    assert home.text("{{VarA}}", settings(("VarA", "a.txt"))) == "[变量文件 (a.txt) 未找到]"


@pytest.mark.parametrize("any_order", [False, True])
def test_files_that_refer_to_themselves_end_in_an_error_text(home: Home, any_order: bool) -> None:
    home.write("TVStxt/a.txt", "1{{VarA}}2{{VarB}}3")
    home.write("TVStxt/b.txt", "b<<VarA>>")
    variables = (("VarA", "a.txt"), ("VarB", "b.txt"))
    error = "[Error: Circular variable reference detected for 'VarA']"
    assert home.text("{{VarA}}", settings(*variables, any_order=any_order)) == f"1{error}2b{error}3"


def test_values_that_refer_to_each_other_end_in_an_error_text_in_any_order(home: Home) -> None:
    variables = (("VarA", "a{{VarB}}"), ("VarB", "b{{VarA}}"))
    error = "[Error: Circular variable reference detected for 'VarA']"
    assert home.text("{{VarA}}", settings(*variables, any_order=True)) == f"ab{error}"
    assert home.text("{{VarA}}", settings(*variables)) == "ab{{VarA}}"


@pytest.mark.parametrize("name", ["../secret.txt", "/etc/hosts.txt", "..\\secret.txt", "sub.txt", "a/../../secret.txt"])
def test_files_outside_of_the_folder_and_folders_are_errors(home: Home, name: str) -> None:
    home.write("secret.txt", "secret")
    (home.path / "TVStxt/sub.txt").mkdir()
    assert home.text("{{VarA}}", settings(("VarA", name))) == f"[处理变量文件 ({name}) 时出错]"


def test_links_out_of_the_folder_are_errors(home: Home) -> None:
    (home.path / "TVStxt/l.txt").symlink_to(home.write("secret.txt", "secret"))
    assert home.text("{{VarA}}", settings(("VarA", "l.txt"))) == "[处理变量文件 (l.txt) 时出错]"


def test_error_texts_are_not_expanded(home: Home) -> None:
    variables = (("VarA", "{{VarB}}.txt"), ("VarB", "b"))
    assert home.text("{{VarA}}", settings(*variables)) == "[变量文件 ({{VarB}}.txt) 未找到]"


def test_a_file_that_holds_bad_utf8_is_readable(home: Home) -> None:
    (home.path / "TVStxt/a.txt").write_bytes("好".encode() + b"\xff\r\n")
    assert home.text("{{VarA}}", settings(("VarA", "a.txt"))) == "好\ufffd\r\n"


def test_a_pipe_in_the_folder_does_not_block(home: Home) -> None:
    os.mkfifo(home.path / "TVStxt/p.txt")
    assert home.text("{{VarA}}", settings(("VarA", "p.txt"))) == "[处理变量文件 (p.txt) 时出错]"


@pytest.mark.parametrize("any_order", [False, True])
def test_variables_that_multiply_are_stopped_and_named(home: Home, any_order: bool) -> None:
    variables = [(f"Var{n}", f"{{{{Var{n + 1}}}}}" * 10) for n in range(9)] + [("Var9", "lol")]
    with pytest.raises(PromptLimitError, match=r"展开 'Var[0-9]' 时提示词.* / .*'Var[0-9]'"):
        home.text("{{Var0}}", settings(*variables, any_order=any_order))


def test_names_that_are_made_again_and_again_are_stopped_and_named(home: Home) -> None:
    variables = (("VarX", "{{Var"), ("VarAB", "{{Var"))
    text = "{{VarX}}" + "AB}}" * 30
    with pytest.raises(PromptLimitError, match=r"变量 'VarAB' 被其中的变量重新生成.* / 'VarAB'"):
        home.text(text, settings(*variables, any_order=True))


def test_files_nested_too_deep_are_a_named_error(home: Home) -> None:
    for n in range(25):
        home.write(f"TVStxt/{n}.txt", f"{{{{Var{n + 1}}}}}")
    variables = [(f"Var{n}", f"{n}.txt") for n in range(25)] + [("Var25", "end")]
    with pytest.raises(PromptLimitError, match=r"'Var20' 在 Agent 和变量中的嵌套超过 20 层 / 'Var20'"):
        home.text("{{Var0}}", settings(*variables))
    assert home.text("{{Var6}}", settings(*variables)) == "end"


def test_sar_texts_are_chosen_by_the_exact_model_in_any_case(home: Home) -> None:
    sar = (
        SarRule("1", ("gpt-4o", "Sonata"), "{{VarB}}"),
        SarRule("12", ("x",), "twelve"),
        SarRule("3", ("gpt-4o",), ""),
    )
    with_sar = settings(("VarB", "b"), sar=sar)
    assert home.text("{{SarPrompt1}}", with_sar, model="SONATA") == "b"
    assert home.text("[{{SarPrompt1}}]", with_sar, model="gpt-4o-mini") == "[]"
    assert home.text("{{SarPrompt12}}{{SarPrompt1}}", with_sar, model="x") == "twelve"
    assert home.text("[{{SarPrompt3}}]", with_sar, model="gpt-4o") == "[]"
    assert home.text("{{SarPromptX}} {{SarPrompt}}", with_sar) == "{{SarPromptX}} {{SarPrompt}}"
