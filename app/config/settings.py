"""Typed settings under their exact names in ``config.env`` (spec vcp-core 2.2 and the settings of our own).

The values come from the ordered environment of the snapshot; pydantic-settings' own readers of environment and dotenv
files are switched off, because they lower-case keys, drop blank values and expand ``${HOME}`` inside prompts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Le
from pydantic import Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from app.config.problem import Complaint
from app.config.setting_kinds import (
    PASSED_THROUGH,
    ChainFusion,
    EmbedderChoice,
    Extension,
    Flag,
    GateKind,
    Host,
    MemoryVersion,
    Names,
    NativeMode,
    Networks,
    Origins,
    PassThroughs,
    Profile,
    RerankerChoice,
    RetrievalKind,
    Seconds,
    TagBoost,
    TimeParser,
    TraceDetail,
    WebAddress,
    WeekStart,
    ZoneName,
    shortened,
)

DEFAULT_ZONE = "Asia/Shanghai"

NEEDS_RESTART = frozenset(
    {"HOST", "PORT", "Key", "ShutdownSeconds", "LiveReload", "ServerLog", "ToolSocketPort", "ToolSocketHost"}
    | {"Main_Server_URL", "ServerName", "NodeCaFile"}
)
"""Settings that are read once, at the start; all others are in force as soon as they are reloaded (spec 5.11)."""

_SECRETS = frozenset(
    {"Key", "API_Key", "Image_Key", "File_Key", "UpstreamProxy", "AdminPassword", "VCP_Key"}
    | {"ToolSocketToken", "MCPOAuthSecret", "RerankApi", "AIMemoApi"}
)


_OTHER_NAMES = {"IGNORE_PREFIX": "IGNORE_PREFIXES", "IGNORE_SUFFIX": "IGNORE_SUFFIXES"}
"""Settings that existing files also write in another way (memory.md 3.1); the name of the class wins."""


class Settings(BaseSettings):
    """Every setting the server reads. Make one with :func:`read`; the aliases are the names in ``config.env``.

    Times are seconds unless the name says otherwise, sizes of bodies and outputs MiB. ``docs/configuration.md`` says
    what each one does; a test keeps the two equal.
    """

    model_config = SettingsConfigDict(frozen=True, extra="ignore", case_sensitive=True, hide_input_in_errors=True)

    # The server
    host: Host = Field(default="127.0.0.1", alias="HOST")
    port: int = Field(default=6005, alias="PORT", ge=0, le=65_535)
    trusted_proxies: Networks = Field(default=(), alias="TrustedProxies")
    cors_origins: Origins = Field(default=("*",), alias="CorsOrigins")
    ip_blacklist: Flag = Field(default=True, alias="IpBlacklist")
    chat_body_limit_mb: int = Field(default=300, alias="ChatBodyLimitMB", ge=1, le=4096)
    tool_body_limit_mb: int = Field(default=16, alias="ToolBodyLimitMB", ge=1, le=4096)
    max_running_turns: int = Field(default=1000, alias="MaxRunningTurns", ge=1, le=1_000_000)
    shutdown_seconds: Seconds = Field(default=10, alias="ShutdownSeconds")
    compat_profile: Profile = Field(default="baseline", alias="compat_profile")
    live_reload: Flag = Field(default=True, alias="LiveReload")
    restart_mode: Literal["self", "exit"] = Field(default="self", alias="RestartMode")

    # Keys
    key: str = Field(default="", alias="Key", repr=False)
    image_key: str = Field(default="", alias="Image_Key", repr=False)
    file_key: str = Field(default="", alias="File_Key", repr=False)
    socket_key: str = Field(default="", alias="VCP_Key", repr=False)
    admin_username: str = Field(default="", alias="AdminUsername")
    admin_password: str = Field(default="", alias="AdminPassword", repr=False)
    metrics_public: Flag = Field(default=False, alias="MetricsPublic")

    # Log
    debug_mode: Flag = Field(default=False, alias="DebugMode")
    debug_dump_files: int = Field(default=200, alias="DebugDumpFiles", ge=0, le=100_000)
    server_log: Flag = Field(default=True, alias="ServerLog")
    server_log_max_mb: int = Field(default=10, alias="ServerLogMaxMB", ge=1, le=4096)
    server_log_files: int = Field(default=10, alias="ServerLogFiles", ge=1, le=10_000)
    traces: TraceDetail = Field(default="full", alias="Traces")
    trace_keep_days: float = Field(default=7, alias="TraceKeepDays", ge=0.01, le=36_500, allow_inf_nan=False)
    trace_max_mb: int = Field(default=256, alias="TraceMaxMB", ge=1, le=100_000)

    # The model API
    api_url: WebAddress = Field(default="", alias="API_URL")
    api_key: str = Field(default="", alias="API_Key", repr=False)
    api_retries: int = Field(default=3, alias="ApiRetries", ge=1, le=100)
    api_retry_delay: int = Field(default=1000, alias="ApiRetryDelay", ge=0, le=600_000)
    api_max_running: int = Field(default=0, alias="ApiMaxRunning", ge=0, le=100_000)
    upstream_proxy: WebAddress = Field(default="", alias="UpstreamProxy", repr=False)
    upstream_connect_timeout: Seconds = Field(default=30, alias="UpstreamConnectTimeout")
    upstream_first_byte_timeout: Seconds = Field(default=900, alias="UpstreamFirstByteTimeout")
    upstream_idle_timeout: Seconds = Field(default=300, alias="UpstreamIdleTimeout")
    upstream_queue_seconds: Seconds = Field(default=60, alias="UpstreamQueueSeconds")
    upstream_pause_seconds: Seconds = Field(default=15, alias="UpstreamPauseSeconds")
    upstream_errors_as_status: Flag = Field(default=False, alias="UpstreamErrorsAsStatus")
    whitelist_image_model: Names = Field(default=(), alias="WhitelistImageModel")
    whitelist_embedding_model: Names = Field(default=(), alias="WhitelistEmbeddingModel")
    pass_through_routes: PassThroughs = Field(default=PASSED_THROUGH, alias="PassThroughRoutes")
    pass_through_body_limit_mb: int = Field(default=100, alias="PassThroughBodyLimitMB", ge=1, le=4096)

    # The conversation
    show_vcp: Flag = Field(default=False, alias="ShowVCP")
    max_vcp_loop_stream: int = Field(default=5, alias="MaxVCPLoopStream", ge=1, le=1000)
    max_vcp_loop_non_stream: int = Field(default=5, alias="MaxVCPLoopNonStream", ge=1, le=1000)
    eager_tools: Flag = Field(default=True, alias="EagerTools")
    max_tool_calls_per_round: int = Field(default=256, alias="MaxToolCallsPerRound", ge=1, le=100_000)
    tool_result_max_chars: int = Field(default=200_000, alias="ToolResultMaxChars", ge=1, le=100_000_000)
    forward_round_usage: Flag = Field(default=False, alias="ForwardRoundUsage")
    cancel_tools_on_disconnect: Flag = Field(default=True, alias="CancelToolsOnDisconnect")
    heartbeat_seconds: Seconds = Field(default=5, alias="HeartbeatSeconds")
    max_call_depth: int = Field(default=5, alias="MaxCallDepth", ge=0, le=100)

    # Tools and plugins
    vcp_tool_code: Flag = Field(default=False, alias="VCPToolCode")
    vcp_tool_code_everywhere: Flag = Field(default=True, alias="VCPToolCodeEverywhere")
    plugin_max_running: int = Field(default=64, alias="PluginMaxRunning", ge=1, le=10_000)
    plugin_queue_limit: int = Field(default=1024, alias="PluginQueueLimit", ge=0, le=1_000_000)
    plugin_queue_seconds: Seconds = Field(default=60, alias="PluginQueueSeconds")
    plugin_output_limit_mb: int = Field(default=64, alias="PluginOutputLimitMB", ge=1, le=4096)
    plugin_stop_seconds: Seconds = Field(default=2, alias="PluginStopSeconds")
    plugin_threads: int = Field(default=16, alias="PluginThreads", ge=1, le=1000)
    run_static_plugins: Flag = Field(default=True, alias="RunStaticPlugins")
    static_value_max_chars: int = Field(default=1_000_000, alias="StaticValueMaxChars", ge=1, le=4_000_000)

    # Background plugins
    background_max_running: int = Field(default=64, alias="BackgroundMaxRunning", ge=0, le=10_000)
    background_max_seconds: float = Field(
        default=0, alias="BackgroundMaxSeconds", ge=0, le=31_536_000, allow_inf_nan=False
    )
    background_result_days: int = Field(default=90, alias="BackgroundResultDays", ge=0, le=36_500)
    background_result_count: int = Field(default=10_000, alias="BackgroundResultCount", ge=0, le=1_000_000)
    callback_base_url: WebAddress = Field(default="", alias="CALLBACK_BASE_URL")
    callback_body_limit_mb: int = Field(default=8, alias="CallbackBodyLimitMB", ge=1, le=32)

    # WebSockets
    socket_max_connections: int = Field(default=2000, alias="SocketMaxConnections", ge=1, le=100_000)
    socket_frames_per_second: int = Field(default=200, alias="SocketFramesPerSecond", ge=1, le=1_000_000)
    socket_max_frame_mb: int = Field(default=1, alias="SocketMaxFrameMB", ge=1, le=1024)
    socket_queue_mb: int = Field(default=16, alias="SocketQueueMB", ge=1, le=4096)
    socket_incoming_mb: int = Field(default=512, alias="SocketIncomingMB", ge=1, le=65_536)
    socket_ping_seconds: Seconds = Field(default=30, alias="SocketPingSeconds")
    log_replay_count: int = Field(default=100, alias="LogReplayCount", ge=0, le=10_000)
    log_replay_hours: float = Field(default=24, alias="LogReplayHours", ge=0, le=8_760, allow_inf_nan=False)

    # Nodes
    node_keys_only: Flag = Field(default=False, alias="NodeKeysOnly")
    node_max_frame_mb: int = Field(default=128, alias="NodeMaxFrameMB", ge=1, le=1024)
    main_server_url: str = Field(default="", alias="Main_Server_URL")
    node_name: str = Field(default="", alias="ServerName")
    node_labels: Names = Field(default=(), alias="NodeLabels")
    node_file_roots: Names = Field(default=(), alias="NodeFileRoots")
    node_ca_file: str = Field(default="", alias="NodeCaFile")

    # Tool clients
    tool_socket_frame_mb: int = Field(default=8, alias="ToolSocketFrameMB", ge=1, le=1024)
    tool_socket_arguments_mb: int = Field(default=1, alias="ToolSocketArgumentsMB", ge=1, le=1024)
    tool_socket_result_mb: int = Field(default=4, alias="ToolSocketResultMB", ge=1, le=1024)
    tool_socket_seconds: Seconds = Field(default=60, alias="ToolSocketSeconds")
    tool_socket_port: int = Field(default=0, alias="ToolSocketPort", ge=0, le=65_535)
    tool_socket_host: Host = Field(default="127.0.0.1", alias="ToolSocketHost")
    tool_socket_token: str = Field(default="", alias="ToolSocketToken", repr=False)
    tool_socket_origins: Origins = Field(default=(), alias="ToolSocketOrigins")
    tool_socket_max_connections: int = Field(default=64, alias="ToolSocketMaxConnections", ge=1, le=100_000)
    tool_socket_frames_per_second: int = Field(default=100, alias="ToolSocketFramesPerSecond", ge=1, le=1_000_000)

    # MCP clients: who uses our tools
    mcp_server: Flag = Field(default=True, alias="MCPServer")
    mcp_allow: Names = Field(default=(), alias="MCPAllow")
    mcp_deny: Names = Field(default=(), alias="MCPDeny")
    mcp_command_enum: Flag = Field(default=False, alias="MCPCommandEnum")
    mcp_resources: Names = Field(default=(), alias="MCPResources")
    mcp_prompts: Names = Field(default=(), alias="MCPPrompts")
    mcp_allowed_hosts: Names = Field(default=(), alias="MCPAllowedHosts")
    mcp_allowed_origins: Origins = Field(default=(), alias="MCPAllowedOrigins")
    mcp_body_limit_mb: int = Field(default=4, alias="MCPBodyLimitMB", ge=1, le=256)
    mcp_max_running: int = Field(default=64, alias="MCPMaxRunning", ge=1, le=10_000)
    mcp_max_running_per_client: int = Field(default=16, alias="MCPMaxRunningPerClient", ge=1, le=10_000)
    mcp_max_sessions: int = Field(default=10_000, alias="MCPMaxSessions", ge=1, le=1_000_000)
    mcp_session_seconds: Seconds = Field(default=1800, alias="MCPSessionSeconds")
    mcp_oauth_issuer: WebAddress = Field(default="", alias="MCPOAuthIssuer")
    mcp_oauth_resource: WebAddress = Field(default="", alias="MCPOAuthResource")
    mcp_oauth_scopes: Names = Field(default=(), alias="MCPOAuthScopes")
    mcp_oauth_introspection: WebAddress = Field(default="", alias="MCPOAuthIntrospection")
    mcp_oauth_client: str = Field(default="", alias="MCPOAuthClient")
    mcp_oauth_secret: str = Field(default="", alias="MCPOAuthSecret", repr=False)
    mcp_files_root: str = Field(default="", alias="MCPFilesRoot")

    # MCP servers: whose tools we use
    mcp_connect_seconds: Seconds = Field(default=30, alias="MCPConnectSeconds")
    mcp_call_seconds: Seconds = Field(default=60, alias="MCPCallSeconds")
    mcp_call_max_seconds: Seconds = Field(default=600, alias="MCPCallMaxSeconds")
    mcp_idle_seconds: Seconds = Field(default=600, alias="MCPIdleSeconds")
    mcp_result_limit_mb: int = Field(default=8, alias="MCPResultLimitMB", ge=1, le=256)
    mcp_question_seconds: Seconds = Field(default=300, alias="MCPQuestionSeconds")
    mcp_sampling_model: str = Field(default="", alias="MCPSamplingModel")
    mcp_sampling_max_tokens: int = Field(default=4096, alias="MCPSamplingMaxTokens", ge=1, le=1_000_000)
    mcp_sampling_per_minute: int = Field(default=10, alias="MCPSamplingPerMinute", ge=1, le=10_000)

    # Tool groups, native calls, OpenAPI
    tool_groups_auto: Flag = Field(default=False, alias="ToolGroupsAuto")
    tool_groups_auto_count: int = Field(default=2, alias="ToolGroupsAutoCount", ge=1, le=100)
    tool_groups_auto_tokens: int = Field(default=2000, alias="ToolGroupsAutoTokens", ge=100, le=1_000_000)
    native_tools: NativeMode = Field(default="off", alias="NativeTools")
    native_tools_allow: Names = Field(default=(), alias="NativeToolsAllow")
    native_tools_deny: Names = Field(default=(), alias="NativeToolsDeny")
    native_tools_max: int = Field(default=128, alias="NativeToolsMax", ge=1, le=10_000)
    openapi_tools: Flag = Field(default=True, alias="OpenAPITools")
    openapi_allow: Names = Field(default=(), alias="OpenAPIAllow")
    openapi_deny: Names = Field(default=(), alias="OpenAPIDeny")

    # Scheduled calls
    schedule_max_pending: int = Field(default=10_000, alias="ScheduleMaxPending", ge=1, le=100_000)
    schedule_max_running: int = Field(default=8, alias="ScheduleMaxRunning", ge=1, le=1000)
    schedule_keep_days: int = Field(default=30, alias="ScheduleKeepDays", ge=1, le=36_500)

    # Time
    default_timezone: ZoneName = Field(default=DEFAULT_ZONE, alias="DEFAULT_TIMEZONE")
    report_timezone: ZoneName = Field(default="", alias="REPORT_TIMEZONE")

    # Prompts
    expand_agents_in_all_roles: Flag = Field(default=False, alias="ExpandAgentsInAllRoles")
    resolve_variables_in_any_order: Flag = Field(default=False, alias="ResolveVariablesInAnyOrder")

    # Diaries
    diary_max_chars: int = Field(default=2_000_000, alias="DiaryMaxChars", ge=1, le=1_000_000_000)
    daily_note_extension: Extension = Field(default="txt", alias="DAILY_NOTE_EXTENSION")
    tag_model: str = Field(default="", alias="TagModel")
    tag_model_max_tokens: int = Field(default=40_000, alias="TagModelMaxTokens", ge=1, le=10_000_000)
    tag_model_prompt: str = Field(default="TagMaster.txt", alias="TagModelPrompt")

    # Memory
    memory: Flag = Field(default=True, alias="Memory")
    memory_embedder: EmbedderChoice = Field(default="auto", alias="MemoryEmbedder")
    memory_reranker: RerankerChoice = Field(default="auto", alias="MemoryReranker")
    memory_rerank_model: str = Field(default="", alias="MemoryRerankModel")
    memory_declaration_tokens: int = Field(default=8000, alias="MemoryDeclarationTokens", ge=100, le=10_000_000)
    memory_request_tokens: int = Field(default=24_000, alias="MemoryRequestTokens", ge=100, le=10_000_000)
    recall_dates: Flag = Field(default=True, alias="RecallDates")
    memory_reconcile_minutes: int = Field(default=10, alias="MemoryReconcileMinutes", ge=1, le=10_000)
    memory_exact_vectors: int = Field(default=200_000, alias="MemoryExactVectors", ge=1_000, le=100_000_000)
    memory_background_share: float = Field(default=0.5, alias="MemoryBackgroundShare", ge=0.05, le=1)
    memory_embedder_idle_seconds: int = Field(default=900, alias="MemoryEmbedderIdleSeconds", ge=10, le=86_400)
    memory_confirm_texts: int = Field(default=200, alias="MemoryConfirmTexts", ge=0, le=100_000_000)
    memory_embedding_requests_per_minute: int = Field(
        default=0, alias="MemoryEmbeddingRequestsPerMinute", ge=0, le=1_000_000
    )
    memory_embedding_tokens_per_minute: int = Field(
        default=0, alias="MemoryEmbeddingTokensPerMinute", ge=0, le=1_000_000_000
    )
    memory_embedding_daily_requests: int = Field(default=0, alias="MemoryEmbeddingDailyRequests", ge=0, le=100_000_000)
    memory_embedding_daily_tokens: int = Field(default=0, alias="MemoryEmbeddingDailyTokens", ge=0, le=10_000_000_000)
    memory_embedding_price: float = Field(default=0.0, alias="MemoryEmbeddingPrice", ge=0, le=100000)
    memory_trash_days: int = Field(default=30, alias="MemoryTrashDays", ge=0, le=36_500)
    memory_compat: MemoryVersion = Field(default="modern", alias="MemoryCompat")
    memory_week_start: WeekStart = Field(default="auto", alias="MemoryWeekStart")
    memory_time_parser: TimeParser = Field(default="auto", alias="MemoryTimeParser")
    memory_tag_boost: TagBoost = Field(default="auto", alias="MemoryTagBoost")
    memory_chain_fusion: ChainFusion = Field(default="auto", alias="MemoryChainFusion")
    memory_retrieval: RetrievalKind = Field(default="auto", alias="MemoryRetrieval")
    memory_gate: GateKind = Field(default="auto", alias="MemoryGate")
    embedding_max_tokens: int = Field(default=8000, alias="WhitelistEmbeddingModelMaxToken", ge=64, le=1_000_000)
    vectordb_dimension: int = Field(default=0, alias="VECTORDB_DIMENSION", ge=0, le=65_536)
    tag_vectorize_concurrency: int = Field(default=5, alias="TAG_VECTORIZE_CONCURRENCY", ge=1, le=100)
    knowledgebase_full_scan_on_startup: Flag = Field(default=True, alias="KNOWLEDGEBASE_FULL_SCAN_ON_STARTUP")
    knowledgebase_root_path: str = Field(default="dailynote", alias="KNOWLEDGEBASE_ROOT_PATH")
    knowledgebase_store_path: str = Field(default="VectorStore", alias="KNOWLEDGEBASE_STORE_PATH")
    knowledgebase_max_batch_size: int = Field(default=50, alias="KNOWLEDGEBASE_MAX_BATCH_SIZE", ge=1, le=10_000)
    knowledgebase_batch_window_ms: int = Field(default=2000, alias="KNOWLEDGEBASE_BATCH_WINDOW_MS", ge=10, le=600_000)
    ignore_folders: Names = Field(default=("VCP论坛",), alias="IGNORE_FOLDERS")
    ignore_prefixes: Names = Field(default=("已整理",), alias="IGNORE_PREFIXES")
    ignore_suffixes: Names = Field(default=("夜伽",), alias="IGNORE_SUFFIXES")
    tag_blacklist: Names = Field(default=(), alias="TAG_BLACKLIST")
    tag_blacklist_super: Names = Field(default=(), alias="TAG_BLACKLIST_SUPER")
    tag_expand_max_count: int = Field(default=30, alias="TAG_EXPAND_MAX_COUNT", ge=1, le=1_000)
    rag_cache_max_size: int = Field(default=100, alias="RAG_CACHE_MAX_SIZE", ge=0, le=100_000)
    rag_cache_ttl_ms: int = Field(default=3_600_000, alias="RAG_CACHE_TTL_MS", ge=0, le=604_800_000)
    rag_query_cache_enabled: Flag = Field(default=True, alias="RAG_QUERY_CACHE_ENABLED")
    embedding_cache_max_size: int = Field(default=500, alias="EMBEDDING_CACHE_MAX_SIZE", ge=0, le=100_000)
    embedding_cache_ttl_ms: int = Field(default=7_200_000, alias="EMBEDDING_CACHE_TTL_MS", ge=0, le=604_800_000)
    rerank_url: WebAddress = Field(default="", alias="RerankUrl")
    rerank_api: str = Field(default="", alias="RerankApi", repr=False)
    rerank_model: str = Field(default="", alias="RerankModel")
    rerank_multiplier: float = Field(default=2.0, alias="RerankMultiplier", ge=1, le=20)
    rerank_max_tokens_per_batch: int = Field(default=30_000, alias="RerankMaxTokensPerBatch", ge=500, le=1_000_000)
    aimemo_model: str = Field(default="", alias="AIMemoModel")
    aimemo_url: WebAddress = Field(default="", alias="AIMemoUrl")
    aimemo_api: str = Field(default="", alias="AIMemoApi", repr=False)
    aimemo_batch: int = Field(default=5, alias="AIMemoBatch", ge=1, le=50)
    aimemo_max_tokens_per_batch: int = Field(default=60_000, alias="AIMemoMaxTokensPerBatch", ge=11_000, le=10_000_000)
    aimemo_prompt: str = Field(default="", alias="AIMemoPrompt")
    aimemo_cache_max_size: int = Field(default=50, alias="AIMEMO_CACHE_MAX_SIZE", ge=0, le=10_000)
    aimemo_cache_ttl_ms: int = Field(default=1_800_000, alias="AIMEMO_CACHE_TTL_MS", ge=0, le=604_800_000)
    base64_memo_limit: int = Field(default=5, alias="BASE64_MEMO_LIMIT", ge=0, le=100)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what the caller hands in counts."""
        return (init_settings,)


def names() -> dict[str, FieldInfo]:
    """The name in ``config.env`` of every setting, in the order of the class, with its definition."""
    return {str(field.alias): field for field in Settings.model_fields.values()}


def read(environ: Mapping[str, str], file_keys: frozenset[str] = frozenset()) -> tuple[Settings, tuple[Complaint, ...]]:
    """Settings out of an environment, and what is wrong with it.

    A blank value counts as not set. A value that cannot be used gives way to the default, with one complaint that says
    what would be right (P19, P89); the other settings stay in force. ``file_keys`` are looked through for names that
    differ from a setting in capitals only, since those have no effect.
    """
    known = names()
    environ = {_OTHER_NAMES[key]: value for key, value in environ.items() if key in _OTHER_NAMES} | {
        key: value for key, value in environ.items() if value.strip() or key not in _OTHER_NAMES.values()
    }
    # Text, not the types that the signature of Settings wants: its validators read it.
    values: dict[str, Any] = {name: environ[name].strip() for name in known if environ.get(name, "").strip()}
    reasons: dict[str, str] = {}
    try:
        settings = Settings(**values)
    except ValidationError as error:
        for detail in error.errors(include_url=False, include_input=False):
            name = str(detail["loc"][0])
            own_words = detail.get("ctx", {}).get("error")
            reasons.setdefault(name, _reason(name, known[name], values[name], own_words))
        settings = Settings(**{name: value for name, value in values.items() if name not in reasons})
    for name, value in values.items():
        if known[name].annotation is bool and value.lower() in ("1", "yes", "on", "y", "t"):
            reasons[name] = f'"{value}" counts as false; only the word true switches a setting on'
    reasons |= _misspelt(known, environ, file_keys)
    return settings, tuple(Complaint(name, reason) for name, reason in reasons.items())


def _misspelt(known: Mapping[str, FieldInfo], environ: Mapping[str, str], file_keys: frozenset[str]) -> dict[str, str]:
    by_lower = {name.lower(): name for name in known}
    found = {}
    for key in environ:
        name = by_lower.get(key.lower())
        if key in file_keys and name is not None and name not in environ:
            found[key] = f"has no effect; capitals count, the setting is called {name}"
    return found


def _reason(name: str, field: FieldInfo, value: str, own_words: object) -> str:
    default = field.get_default()
    instead = "nothing" if default in ("", ()) else ",".join(default) if isinstance(default, tuple) else str(default)
    # An address may carry a password.
    shown = "the value" if name in _SECRETS or "@" in value else f'"{shortened(value)}"'
    wrong = str(own_words) if own_words else f"is not {expected(field)}"
    return f"{shown} {wrong}; using the default ({instead})"


def expected(field: FieldInfo) -> str:
    """What a setting's value has to be, in words: the range of a number, the words of a choice."""
    if get_origin(field.annotation) is Literal:
        return "one of " + ", ".join(get_args(field.annotation))
    kinds: dict[object, str] = {int: "a whole number", float: "a number", bool: "true or false"}
    kind = kinds.get(field.annotation, "text")
    low = next((limit.ge for limit in field.metadata if isinstance(limit, Ge)), None)
    high = next((limit.le for limit in field.metadata if isinstance(limit, Le)), None)
    return kind if low is None else f"{kind} from {low} to {high}"
