"""The family ``Upstream_<NAME>_…`` of config.env."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.config.snapshot import load
from app.config.upstreams import MAX_UPSTREAMS, NamedUpstream, collect
from app.extend import UpstreamTarget


def told(environ: dict[str, str], file_keys: frozenset[str] = frozenset()) -> dict[str, str]:
    return {complaint.key: complaint.reason for complaint in collect(environ, file_keys)[1]}


def test_an_upstream_is_all_that_its_keys_say() -> None:
    environ = {
        "Upstream_fast_Key": " sk-1 ",
        "Upstream_fast_URL": "https://fast.example/v1/",
        "Upstream_fast_Models": "deepseek-*, qwen-max，gpt,,",
        "Upstream_fast_MaxRunning": "8",
        "Upstream_fast_Proxy": "proxy:3128",
    }
    assert collect(environ) == (
        (
            NamedUpstream(
                UpstreamTarget("https://fast.example", "sk-1", "http://proxy:3128", "fast", 8),
                ("deepseek-*", "qwen-max", "gpt"),
            ),
        ),
        (),
    )


def test_only_the_address_is_needed() -> None:
    (found,), complaints = collect({"Upstream_my_own-2_URL": "http://127.0.0.1:11434", "Upstream_my_own-2_Key": ""})
    assert found == NamedUpstream(UpstreamTarget("http://127.0.0.1:11434", "", None, "my_own-2"))
    assert not complaints


@pytest.mark.parametrize(
    ("written", "proxy"), [("", None), (" ", None), ("direct", ""), ("Direct", ""), ("http://p:1", "http://p:1")]
)
def test_a_proxy_is_an_address_or_none_at_all_or_the_common_one(written: str, proxy: str | None) -> None:
    (found,), _ = collect({"Upstream_a_URL": "http://a", "Upstream_a_Proxy": written})
    assert found.target.proxy == proxy


@given(st.permutations(["b", "a", "C", "a_b", "10", "9"]))
def test_the_order_is_that_of_the_addresses_in_the_file(names: list[str]) -> None:
    environ = {f"Upstream_{name}_Key": "k" for name in reversed(names)}
    environ |= {f"Upstream_{name}_URL": f"http://{index}" for index, name in enumerate(names)}
    assert [upstream.target.name for upstream in collect(environ)[0]] == names


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("URL", "a.example", "does not begin with http:// or https://"),
        ("URL", "ftp://a.example", "begins with ftp://"),
        ("URL", "https://user:secret@a.example", "name or password"),
        ("URL", "https://user:secret/x@a.example", "host or port that cannot be used"),
        ("URL", "https://a.example/?key=secret", "after ? or #"),
        ("Key", "secret\nX-Evil: 1", "line break"),
        ("Models", " , ，", "names no model"),
        ("Proxy", "socks5://secret:1", "socks5:// proxy"),
        ("Proxy", "http://user:secret@", "no usable proxy address"),
    ],
)
def test_an_upstream_that_cannot_be_used_as_written_is_left_out_and_its_value_never_shown(
    key: str, value: str, reason: str
) -> None:
    environ = {"Upstream_a_URL": "https://a.example", "Upstream_b_URL": "https://b.example", f"Upstream_a_{key}": value}
    found, (complaint,) = collect(environ)
    assert [upstream.target.name for upstream in found] == ["b"]
    assert complaint.key == f"Upstream_a_{key}"
    assert complaint.reason.startswith("the upstream is left out: ")
    assert reason in complaint.reason
    assert "secret" not in complaint.reason


@pytest.mark.parametrize("value", ["0", "-1", "abc", "1.5", "100001", "9" * 5000, "٣"])
def test_a_limit_that_is_none_loses_only_itself(value: str) -> None:
    (found,), (complaint,) = collect({"Upstream_a_URL": "http://a", "Upstream_a_MaxRunning": value})
    assert found.target.max_running is None
    assert complaint.reason == "is not a whole number from 1 to 100000; no limit applies"


def test_keys_that_belong_to_no_upstream_are_told() -> None:
    environ = {
        "Upstream_a_Key": "secret",
        "Upstream_a_Models": "",
        "Upstream_b_URL": " ",
        "Upstream_b_Modles": "x",
        "Upstream_URL": "http://a",
        "Upstream_c_url": "http://a",
        "UPSTREAM_D_URL": "http://d",
        "UPSTREAM_E_URL": "http://e",
        "UpstreamProxy": "http://p",
    }
    known = told(environ, frozenset({"UPSTREAM_D_URL"}))
    assert set(known) == {"Upstream_a_Key", "Upstream_b_Modles", "Upstream_URL", "Upstream_c_url", "UPSTREAM_D_URL"}
    assert known["Upstream_a_Key"] == "is not used: Upstream_a_URL is not set or empty"
    assert known["Upstream_b_Modles"].endswith("one of URL, Key, Models, MaxRunning or Proxy")
    assert known["Upstream_c_url"].endswith("the setting is called Upstream_c_URL")
    assert known["UPSTREAM_D_URL"].endswith("the setting is called Upstream_D_URL")


def test_there_is_a_most_of_upstreams() -> None:
    environ = {f"Upstream_u{index}_URL": f"http://h{index}" for index in range(MAX_UPSTREAMS + 2)}
    found, complaints = collect(environ)
    assert len(found) == MAX_UPSTREAMS
    assert [complaint.key for complaint in complaints] == [
        f"Upstream_u{index}_URL" for index in (MAX_UPSTREAMS, MAX_UPSTREAMS + 1)
    ]


@given(
    st.dictionaries(
        st.builds(
            "Upstream_{}_{}".format,
            st.text(max_size=5),
            st.sampled_from(["URL", "Key", "Models", "MaxRunning", "Proxy", "X", ""]),
        ),
        st.one_of(st.text(), st.sampled_from(["http://a", "https://b/v1", "8", "direct", "a*,b"])),
        max_size=12,
    )
)
def test_whatever_is_written_there_is_never_an_error(environ: dict[str, str]) -> None:
    for upstream in collect(environ, frozenset(environ))[0]:
        assert upstream.target.base_url.startswith("http")
        assert upstream.target.api_key.isprintable()


def test_a_file_tells_line_and_key_and_keeps_secrets_out_of_every_text(tmp_path: Path) -> None:
    (tmp_path / "config.env").write_text(
        "API_URL=https://main.example\n"
        "Upstream_a_URL=https://a.example\n"
        "Upstream_a_Key=sk-secret\n"
        "Upstream_a_MaxRunning=many\n"
        "Upstream_b_URL=https://user:sk-secret@b.example\n",
        encoding="utf-8",
    )
    config = load(tmp_path, {})
    assert [upstream.target.name for upstream in config.upstreams] == ["a"]
    assert [(problem.line, problem.key) for problem in config.problems] == [
        (4, "Upstream_a_MaxRunning"),
        (5, "Upstream_b_URL"),
    ]
    assert all(problem.file.endswith("config.env") for problem in config.problems)
    for text in (repr(config), repr(config.upstreams), *map(str, config.problems)):
        assert "sk-secret" not in text


@pytest.mark.parametrize(
    ("text", "has"),
    [("", False), ("API_URL=http://a", True), ("Upstream_a_URL=http://a", True), ("Upstream_a_URL=x", False)],
)
def test_an_installation_has_a_model_api_when_one_can_be_asked(tmp_path: Path, text: str, has: bool) -> None:
    (tmp_path / "config.env").write_text(text, encoding="utf-8")
    assert load(tmp_path, {}).has_model_api is has


def test_the_process_environment_names_upstreams_too_and_wins(tmp_path: Path) -> None:
    (tmp_path / "config.env").write_text("Upstream_b_URL=http://b\nUpstream_a_URL=http://file", encoding="utf-8")
    config = load(tmp_path, {"Upstream_a_URL": "http://process"})
    assert [upstream.target.base_url for upstream in config.upstreams] == ["http://process", "http://b"]
