"""Which upstreams serve a model: that of API_URL alone, and several."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.config.snapshot import load
from app.config.upstreams import NamedUpstream
from app.errors import ConfigError, ModelNotServedError
from app.extend import UpstreamResolver, UpstreamTarget
from app.upstream.limits import UpstreamLimits
from app.upstream.targets import OrderedUpstreams, SingleUpstream, resolver_of


def test_every_model_has_the_same_target() -> None:
    upstream = SingleUpstream(" https://host/v1/ ", " key\n", "proxy:8080")
    assert upstream.resolve("a") == (UpstreamTarget("https://host", "key", "http://proxy:8080"),)
    assert upstream.resolve("b") is upstream.resolve("a")
    assert upstream.targets() == upstream.resolve("c")


@pytest.mark.parametrize("proxy", [None, "", " "])
def test_without_a_proxy_setting_there_is_none(proxy: str | None) -> None:
    assert SingleUpstream("https://host", "", proxy).resolve("a")[0].proxy is None


@pytest.mark.parametrize(
    ("url", "key", "proxy", "setting"),
    [
        ("host", "k", None, "API_URL"),
        ("https://host", "secret\nX: y", None, "API_Key"),
        ("https://host", "k", "socks5://secret@s:1", "UpstreamProxy"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_and_never_repeated(
    url: str, key: str, proxy: str | None, setting: str
) -> None:
    with pytest.raises(ConfigError, match=setting) as caught:
        SingleUpstream(url, key, proxy)
    assert "secret" not in caught.value.message


def test_a_target_does_not_show_its_key() -> None:
    shown = repr(UpstreamTarget("https://host", "sk-secret", "http://u:sk-secret@p:1"))
    assert "sk-secret" not in shown


@pytest.mark.parametrize("name", ["connect", "first_byte", "idle", "queue"])
@pytest.mark.parametrize("seconds", [0.0, -1.0, float("inf"), float("nan")])
def test_a_limit_is_a_positive_number_of_seconds(name: str, seconds: float) -> None:
    with pytest.raises(ValueError, match=name):
        UpstreamLimits(**{name: seconds})


def test_the_default_limits_are_generous() -> None:
    assert UpstreamLimits() == UpstreamLimits(connect=30, first_byte=900, idle=300, queue=60)


# --- several ---------------------------------------------------------------------------------------------------------


def resolver(tmp_path: Path, *lines: str) -> UpstreamResolver:
    (tmp_path / "config.env").write_text("\n".join(lines), encoding="utf-8")
    config = load(tmp_path, {})
    assert config.problems == ()
    return resolver_of(config)


def asked(found: UpstreamResolver, model: str) -> list[str]:
    return [target.name or "API_URL" for target in found.resolve(model)]


def test_the_example_of_the_documentation_does_what_it_says(tmp_path: Path) -> None:
    docs = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
    example = docs.split("## Several upstreams")[1].split("```sh\n")[1].split("```")[0]
    found = resolver(tmp_path, example)
    assert asked(found, "deepseek-r1") == ["deepseek", "home"]
    assert asked(found, "DeepSeek-V3") == ["deepseek"]
    assert asked(found, "qwen3") == ["home"]
    assert asked(found, "gpt-5") == asked(found, "") == ["API_URL", "spare"]
    assert [target.name for target in found.targets()] == ["", "deepseek", "home", "spare"]


def test_a_star_of_its_own_serves_what_no_list_names_and_gives_a_named_model_a_spare(tmp_path: Path) -> None:
    found = resolver(
        tmp_path,
        "Upstream_a_URL=http://a",
        "Upstream_a_Models=deepseek-*",
        "Upstream_b_URL=http://b",
        "Upstream_b_Models=deepseek-*, *",
        "Upstream_d_URL=http://d",
        "Upstream_d_Models=**",
        "API_URL=http://c",
    )
    assert asked(found, "deepseek-x") == ["a", "b"]
    assert asked(found, "other") == ["API_URL", "b", "d"]


def test_the_one_of_api_url_comes_first_among_those_for_everything_wherever_it_stands(tmp_path: Path) -> None:
    found = resolver(tmp_path, "Upstream_a_URL=http://a", "API_URL=http://c", "ApiMaxRunning=3")
    assert asked(found, "m") == ["API_URL", "a"]
    assert [target.max_running for target in found.targets()] == [3, None]


def test_without_api_url_a_model_that_nobody_names_is_an_error_that_names_it_and_the_way_out(tmp_path: Path) -> None:
    found = resolver(tmp_path, "Upstream_a_URL=http://a", "Upstream_a_Models=one")
    with pytest.raises(ModelNotServedError, match=r'"two".*API_URL.*Models') as caught:
        found.resolve("two")
    assert (caught.value.status, caught.value.code) == (404, "model_not_found")
    with pytest.raises(ModelNotServedError, match="names no model"):
        found.resolve("")
    with pytest.raises(ModelNotServedError) as caught:
        found.resolve("x" * 1_000_000)
    assert len(caught.value.message) < 500


def test_without_any_model_api_the_setting_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="API_URL"):
        resolver(tmp_path, "")


@pytest.mark.parametrize(
    ("own", "proxy"), [(None, "http://common:1"), ("direct", ""), ("http://mine:2", "http://mine:2")]
)
def test_the_common_proxy_counts_unless_an_upstream_has_its_own(tmp_path: Path, own: str | None, proxy: str) -> None:
    lines = ["UpstreamProxy=http://common:1", "Upstream_a_URL=http://a"]
    found = resolver(tmp_path, *lines, *([f"Upstream_a_Proxy={own}"] if own else []))
    assert [target.proxy for target in found.targets()] == [proxy]


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:6005/v1", True),
        ("http://localhost:6005", True),
        ("http://[::1]:6005", True),
        ("http://192.168.1.2:6005", True),
        ("http://127.0.0.1:6006", False),
        ("http://10.0.0.1:6005", False),
        ("http://127.0.0.1", False),
        ("https://api.example.com", False),
    ],
)
def test_an_upstream_that_is_this_server_itself_is_known(tmp_path: Path, url: str, here: bool) -> None:
    for key in ("API_URL", "Upstream_a_URL"):
        (target,) = resolver(tmp_path, f"{key}={url}", "HOST=192.168.1.2").targets()
        assert target.ourselves is here


WORD = st.text("ab-", max_size=6)


@given(st.lists(st.sampled_from(["a", "b", "-", "*", "ab"]), min_size=1, max_size=6).map("".join), WORD)
def test_a_star_stands_for_any_text_and_nothing_else_is_special(pattern: str, name: str) -> None:
    target = UpstreamTarget("http://a", "")
    found = OrderedUpstreams([NamedUpstream(target, (pattern, "never"))])
    try:
        assert found.resolve(name) == [target] or pattern.strip("*") == ""
        assert fnmatchcase(name, pattern)
    except ModelNotServedError:
        assert not fnmatchcase(name, pattern)


@pytest.mark.parametrize("pattern", ["a?c", "[abc]", "a.c", "Größe", "ＡＢ"])
def test_other_signs_are_letters_and_case_does_not_count(pattern: str) -> None:
    found = OrderedUpstreams([NamedUpstream(UpstreamTarget("http://a", ""), (pattern,))])
    assert found.resolve(pattern.upper())
    with pytest.raises(ModelNotServedError):
        found.resolve("abc")


def test_a_hostile_name_and_pattern_take_no_time() -> None:
    found = OrderedUpstreams([NamedUpstream(UpstreamTarget("http://a", ""), ("*".join("a" * 2000) + "b*c",))])
    with pytest.raises(ModelNotServedError):
        found.resolve("a" * 1_000_000)
