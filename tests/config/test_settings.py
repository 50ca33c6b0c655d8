"""Typed settings: spec vcp-core 2.2, B7, B12, B31, D16, pitfalls P19 and P89."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from app.config.settings import Settings, expected, names, read

NUMBERS = [name for name, field in names().items() if field.annotation in (int, float)]
SWITCHES = [name for name, field in names().items() if field.annotation is bool]


def settings(**environ: str) -> Settings:
    found, complaints = read(environ)
    assert complaints == ()
    return found


def reason(name: str, value: str) -> str:
    found, complaints = read({name: value})
    assert found == Settings(), "a bad value must leave every default in force"
    (complaint,) = complaints
    assert complaint.key == name
    return complaint.reason


def test_the_limits_of_websockets_are_those_that_were_decided() -> None:
    """D62, D63; D16 for the profile."""
    found = settings()
    assert (found.socket_max_frame_mb, found.node_max_frame_mb) == (1, 128)
    assert (found.tool_socket_frame_mb, found.tool_socket_arguments_mb, found.tool_socket_result_mb) == (8, 1, 4)
    assert (found.socket_max_connections, found.socket_frames_per_second) == (2000, 200)
    assert (found.tool_socket_max_connections, found.tool_socket_frames_per_second) == (64, 100)
    assert (found.log_replay_count, found.log_replay_hours) == (100, 24)
    assert (found.compat_profile, found.node_keys_only) == ("baseline", False)


def test_the_defaults_are_those_of_the_specification() -> None:
    found = settings()
    assert (found.port, found.host, found.api_url, found.api_key, found.key, found.image_key) == (
        6005,
        "127.0.0.1",
        "",
        "",
        "",
        "",
    )
    assert (found.debug_mode, found.show_vcp, found.vcp_tool_code) == (False, False, False)
    assert (found.max_vcp_loop_stream, found.max_vcp_loop_non_stream) == (5, 5)
    assert (found.api_retries, found.api_retry_delay) == (3, 1000)
    assert found.default_timezone == "Asia/Shanghai"
    assert found.compat_profile == "baseline"
    assert found.trusted_proxies == ()
    assert (found.chat_body_limit_mb, found.tool_body_limit_mb) == (300, 16)
    assert (found.tag_model_max_tokens, found.tag_model_prompt) == (40_000, "TagMaster.txt")


@pytest.mark.parametrize(
    ("value", "on"),
    [("true", True), ("True", True), ("TRUE", True), (" true ", True), ("false", False), ("0", False), ("off", False)],
)
@pytest.mark.parametrize("name", ["ShowVCP", "EagerTools"])
def test_a_switch_is_on_only_for_the_word_true(name: str, value: str, on: bool) -> None:
    found = settings(**{name: value})
    assert (found.show_vcp if name == "ShowVCP" else found.eager_tools) is on


@pytest.mark.parametrize("name", SWITCHES)
@pytest.mark.parametrize("value", ["1", "yes", "On"])
def test_a_switch_set_to_another_word_for_yes_is_off_and_reported(name: str, value: str) -> None:
    found, complaints = read({name: value})
    assert getattr(found, attribute(name)) is False
    assert [complaint.key for complaint in complaints] == [name]
    assert "only the word true" in complaints[0].reason


def attribute(name: str) -> str:
    return next(key for key, field in Settings.model_fields.items() if field.alias == name)


@pytest.mark.parametrize("name", list(names()))
@pytest.mark.parametrize("blank", ["", "   ", "\t"])
def test_a_blank_value_counts_as_not_set(name: str, blank: str) -> None:
    assert settings(**{name: blank}) == Settings()


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", ["abc", "5 rounds", "-1", "1e99", "nan", "inf", "0x10", "9" * 30, "１２a"])
def test_a_number_that_cannot_be_used_gives_way_to_the_default(name: str, value: str) -> None:
    text = reason(name, value)
    assert f'"{value}" is not a' in text
    assert "using the default" in text


@pytest.mark.parametrize("name", ["MaxVCPLoopStream", "MaxVCPLoopNonStream", "ApiRetries"])
@pytest.mark.parametrize("value", ["0", "abc", "NaN", "-3"])
def test_loop_limits_and_retries_fall_back_on_zero_and_text(name: str, value: str) -> None:
    assert "is not a whole number from 1 to" in reason(name, value)


def test_numbers_at_the_ends_of_their_range_are_taken() -> None:
    found = settings(
        PORT="0", MaxVCPLoopStream="1000", ApiRetryDelay="0", HeartbeatSeconds="0.01", PluginQueueLimit="0"
    )
    assert (found.port, found.max_vcp_loop_stream, found.api_retry_delay) == (0, 1000, 0)
    assert (found.heartbeat_seconds, found.plugin_queue_limit) == (0.01, 0)


def test_one_bad_value_leaves_the_other_settings_in_force() -> None:
    found, complaints = read({"PORT": "abc", "ShowVCP": "true", "ApiRetries": "x", "Key": "k", "compat_profile": "new"})
    assert (found.port, found.show_vcp, found.api_retries, found.key) == (6005, True, 3, "k")
    assert sorted(complaint.key for complaint in complaints) == ["ApiRetries", "PORT", "compat_profile"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("compat_profile", "HEAD"), ("DAILY_NOTE_EXTENSION", ".MD"), ("DAILY_NOTE_EXTENSION", "md")],
)
def test_choices_are_read_in_any_case(name: str, value: str) -> None:
    assert getattr(settings(**{name: value}), attribute(name)) == value.lower().removeprefix(".")


def test_a_choice_that_does_not_exist_is_told_what_there_is() -> None:
    assert reason("compat_profile", "new") == '"new" is not one of baseline, head; using the default (baseline)'
    assert "one of txt, md" in reason("DAILY_NOTE_EXTENSION", "pdf")


@pytest.mark.parametrize(
    ("value", "zone"), [("Europe/Berlin", "Europe/Berlin"), ("asia/tokyo", "Asia/Tokyo"), ("utc", "UTC")]
)
def test_zones_are_those_of_the_zone_database_in_any_case(value: str, zone: str) -> None:
    assert settings(DEFAULT_TIMEZONE=value).default_timezone == zone


@pytest.mark.parametrize("value", ["Mars/Olympus", "Asia", "../Asia/Tokyo", "/etc/localtime", "a\0b", "x" * 300, "+8"])
@pytest.mark.parametrize("name", ["DEFAULT_TIMEZONE", "REPORT_TIMEZONE"])
def test_a_zone_that_does_not_exist_gives_way_to_the_default(name: str, value: str) -> None:
    assert "is not a time zone" in reason(name, value)


def test_trusted_proxies_are_addresses_and_networks() -> None:
    found = settings(TrustedProxies="127.0.0.1, 10.1.2.3/8，::1, fd00::/8,")
    assert found.trusted_proxies == tuple(map(ip_network, ("127.0.0.1/32", "10.0.0.0/8", "::1/128", "fd00::/8")))


@pytest.mark.parametrize("value", ["*", "proxy.local", "10.0.0.0/33", "127.0.0.1 10.0.0.1"])
def test_a_bad_proxy_list_trusts_nobody(value: str) -> None:
    assert "no IP address or network" in reason("TrustedProxies", value)


@pytest.mark.parametrize(
    ("value", "origins"),
    [
        ("*", ("*",)),
        ("https://a.example/, http://localhost:3000", ("https://a.example", "http://localhost:3000")),
        ("null", ("null",)),
        ("chrome-extension://abc", ("chrome-extension://abc",)),
    ],
)
def test_origins_are_a_comma_list(value: str, origins: tuple[str, ...]) -> None:
    assert settings(CorsOrigins=value).cors_origins == origins


@pytest.mark.parametrize("value", ["example.com", "https://a/b", "https://"])
def test_a_bad_origin_is_named(value: str) -> None:
    assert "which is no origin" in reason("CorsOrigins", value)


@pytest.mark.parametrize("value", ["https://api.example.com", "http://127.0.0.1:3000/v1/", "HTTPS://[::1]:8443"])
def test_addresses_of_the_model_api_are_taken_as_written(value: str) -> None:
    assert settings(API_URL=value).api_url == value


@pytest.mark.parametrize(
    "value", ["api.example.com", "ftp://x", "http://", "http://h:port", "http://h:99999", "http://[::1", "http://a b"]
)
def test_an_address_that_is_none_is_reported(value: str) -> None:
    assert "is not an address that begins with http:// or https://" in reason("API_URL", value)


@pytest.mark.parametrize(("value", "host"), [("0.0.0.0", "0.0.0.0"), ("[::1]", "::1"), ("my-host.lan", "my-host.lan")])
def test_hosts_are_names_and_addresses(value: str, host: str) -> None:
    assert settings(HOST=value).host == host


@pytest.mark.parametrize("value", ["http://0.0.0.0", "a b", "本机"])
def test_a_host_that_is_none_keeps_the_server_on_loopback(value: str) -> None:
    assert "is not a host name or an IP address; using the default (127.0.0.1)" in reason("HOST", value)


def test_secrets_are_in_no_message_and_no_representation() -> None:
    assert "pa55" not in reason("UpstreamProxy", "user:pa55@host")
    assert "pa55" not in reason("API_URL", "user:pa55@host")
    assert "pa55" not in repr(settings(Key="pa55", API_Key="pa55", Image_Key="pa55", UpstreamProxy="http://u:pa55@h"))


def test_a_message_stays_one_short_line() -> None:
    text = reason("PORT", "a\n" * 5000)
    assert "\n" not in text
    assert len(text) < 200


def test_space_and_carriage_returns_around_a_value_do_not_count() -> None:
    assert settings(Key=" secret\r").key == "secret"


def test_capitals_count_and_a_file_is_told_so() -> None:
    found, complaints = read({"port": "7000", "Api_Key": "x", "HOST": "::1", "host": "y"}, frozenset({"port", "host"}))
    assert (found.port, found.api_key, found.host) == (6005, "", "::1")
    assert [(complaint.key, complaint.reason) for complaint in complaints] == [
        ("port", "has no effect; capitals count, the setting is called PORT")
    ]


def test_unknown_keys_are_no_error() -> None:
    assert settings(NEWAPI_MONITOR_URL="x", WeatherKey="y", VarCity="z") == Settings()


def test_nothing_but_the_given_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT", "7777")
    monkeypatch.setenv("port", "7777")
    assert settings().port == 6005


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        settings().port = 1


@given(st.dictionaries(st.sampled_from(list(names())), st.text(max_size=20)))
def test_no_environment_stops_the_start(environ: dict[str, str]) -> None:
    found, complaints = read(environ)
    assert isinstance(found, Settings)
    assert {complaint.key for complaint in complaints} <= set(environ)


def test_every_number_has_a_range() -> None:
    for name in NUMBERS:
        assert " from " in expected(names()[name]), name


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ({"IGNORE_PREFIX": "旧,草稿"}, ("旧", "草稿")),
        ({"IGNORE_PREFIXES": "旧"}, ("旧",)),
        ({"IGNORE_PREFIX": "a", "IGNORE_PREFIXES": "b"}, ("b",)),
        ({"IGNORE_PREFIX": "a", "IGNORE_PREFIXES": " "}, ("a",)),
        ({}, ("已整理",)),
    ],
)
def test_both_spellings_of_the_ignored_prefixes_are_read(written: dict[str, str], read_as: tuple[str, ...]) -> None:
    """memory.md 3.1: the sample file of the reference writes what its code does not read."""
    settings, complaints = read(written)
    assert settings.ignore_prefixes == read_as
    assert not complaints
