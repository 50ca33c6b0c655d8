from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.extend import Trust
from app.mcp.groups.choice import GroupIndex, chosen_groups, terms
from app.mcp.groups.groups import Group


def group(name: str, description: str, *tools: str) -> Group:
    return Group(name, description, Trust.OPERATOR, dict.fromkeys(tools, None))  # type: ignore[arg-type]


GROUPS = (
    group("files", "Read, write and search files on disk", "read_file", "write_file", "list_directory"),
    group("weather", "Forecasts for any city", "get_forecast", "getAlerts"),
    group("天气", "查询各地天气预报", "查询天气"),
    group("绘图", "根据文字生成图片，修改图片", "FluxGen"),
    group("github", "Issues, pull requests and code search", "search_code", "create_issue"),
    group("mail", "Read and send e-mail", "send_mail"),
)
INDEX = GroupIndex(GROUPS)


def test_words_are_pairs_of_ideographs_and_lower_case_singulars() -> None:
    assert terms("Read_files getForecast HTTPServer 3D") == ["read", "file", "forecast", "httpserver", "3d"]
    assert terms("查询天气") == ["查询", "询天", "天气"]
    assert terms("天 a the") == ["天"]
    assert terms("class bus ices") == ["class", "bus", "ice"]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("今天北京天气怎么样？", ["天气"]),
        ("帮我画一张图片，一只猫", ["绘图"]),
        ("Will it rain? Show me the forecast for Paris", ["weather"]),
        ("Please open the issue on GitHub", ["github"]),
        ("write a file with the forecast", ["files", "weather"]),
        ("Hello, how are you?", []),
        ("谢谢，可以了", []),
        ("Tell me what you can do for me and how to use it", []),
        ("", []),
        ("。，！ 123 ...", []),
    ],
)
def test_groups_are_chosen_by_the_words_of_the_user(said: str, expected: list[str]) -> None:
    assert chosen_groups(INDEX, [said], 2) == expected


def test_what_was_chosen_stays_in_the_order_of_its_first_choice() -> None:
    talk = ["weather forecast please", "now write it into a file", "thanks", "and the forecast of tomorrow?"]
    chosen = [chosen_groups(INDEX, talk[:turns], 3) for turns in range(1, 5)]
    assert chosen == [["weather"], ["weather", "files"], ["weather", "files"], ["weather", "files"]]


def test_who_has_not_fitted_for_longest_makes_room() -> None:
    talk = ["the forecast", "write a file", "the forecast again", "a new GitHub issue"]
    assert chosen_groups(INDEX, talk, 2) == ["weather", "github"]


def test_words_of_the_turn_before_count_less_than_those_of_this_one() -> None:
    assert chosen_groups(INDEX, ["write a file", "the forecast"], 1) == ["weather"]


def test_no_groups_and_no_words_are_fine() -> None:
    assert chosen_groups(GroupIndex(()), ["the forecast"], 2) == []
    assert chosen_groups(GroupIndex((group("", ""),)), ["the forecast"], 2) == []
    assert chosen_groups(INDEX, [], 2) == []


@given(
    st.lists(st.sampled_from(["forecast", "file", "天气 图片", "issue", "hello", "mail files"]), max_size=15),
    st.integers(1, 4),
)
def test_choosing_is_the_same_each_time_and_keeps_its_limits(talk: list[str], count: int) -> None:
    chosen = chosen_groups(INDEX, talk, count)
    assert chosen == chosen_groups(GroupIndex(GROUPS), talk, count)
    assert len(chosen) <= count
    assert len(set(chosen)) == len(chosen)


def test_hostile_texts_are_cut() -> None:
    assert chosen_groups(INDEX, ["天气" * 1_000_000] * 30, 2) == ["天气"]
    assert GroupIndex([group("x", "a" * 5_000_000), group("y", "天" * 5_000_000)]).fitting([frozenset({"a"})], 1) == []
