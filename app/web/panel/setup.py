"""The set-up assistant: a model API, a model, a first agent, and then everything is written at once (D86)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.config.addresses import AddressError, api_address
from app.config.edited_file import EditConflictError
from app.config.env_edit import EnvEditError
from app.config.snapshot import CONFIG_FILE
from app.errors import BadRequestError, ConfigError, UpstreamConnectError, both
from app.extend import DeclaredRoute, PageGroup, PanelPage
from app.prompt.new_agent import MAP_FILE, AgentTakenError, agent_name, write_agent
from app.services.configuration import ConfigRefusedError, Configuration
from app.upstream.probe import ProbeError, probe
from app.upstream.proxies import EnvironmentProxies, proxy_url
from app.web.panel.frame import URL, Panel, panel_route
from app.web.panel.setup_texts import FIRST_NAME, first_agent_text, named

PAGE = "setup"
STEPS = ("upstream", "model", "agent", "write")
MAX_LISTED = 500
"""Models that the page offers to choose from."""

MAX_PROBES = 4
"""Model APIs that are asked at a time."""


@dataclass(frozen=True, slots=True)
class Answers:
    """What a person has told so far; every step carries all of it, so that going back loses nothing."""

    url: str = ""
    key: str = field(default="", repr=False)
    model: str = ""
    models: tuple[str, ...] = ()
    name: str = ""
    text: str = ""

    def fields(self) -> Mapping[str, str]:
        """As fields of a form."""
        listed = "\n".join(self.models)
        return {
            "url": self.url,
            "key": self.key,
            "model": self.model,
            "models": listed,
            "name": self.name,
            "text": self.text,
        }


class SetupPart:
    """The steps. Nothing is kept between two requests, and nothing is written before the last one."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._configuration = Configuration(panel.services, lambda: datetime.now(UTC))
        self._probes = asyncio.Semaphore(MAX_PROBES)

    def pages(self) -> Sequence[PanelPage]:
        """One."""
        words = "setup wizard 向导 上游 upstream API_URL first agent 首次 安装"
        return (PanelPage(PAGE, PageGroup.OVERVIEW, "设置助手", "Set-up assistant", 50, words),)

    def routes(self) -> Sequence[DeclaredRoute]:
        """The page, its steps, and the test of a model API."""
        return (
            panel_route("/setup", self._begin),
            panel_route("/setup", self._step, "POST"),
            panel_route("/setup/test", self._test, "POST"),
            panel_route("/setup/done", self._done),
        )

    async def _begin(self, request: Request) -> Response:
        url = self._panel.services.settings.api_url
        language = self._panel.language(request)
        return self._show(request, "upstream", Answers(url=url, name=FIRST_NAME, text=first_agent_text(language)))

    async def _step(self, request: Request) -> Response:
        form = await self._panel.form(request)
        answers, step, way = _answers(form), form.get("step", ""), form.get("way", "next")
        if step not in STEPS:
            raise BadRequestError(both("没有这一步", "there is no such step"))
        place = STEPS.index(step)
        if way == "back":
            return self._show(request, STEPS[max(0, place - 1)], answers)
        if step == "upstream":
            return await self._leave_upstream(request, answers, skip=way == "skip")
        if step == "agent" and answers.name:
            try:
                agent_name(answers.name)
            except BadRequestError as error:
                return self._show(request, step, answers, error=error.message, status=422)
        if step == "write":
            return await self._write(request, answers, form)
        if step == "agent":
            return await self._before_writing(request, replace(answers, text=named(answers.text, answers.name)))
        return self._show(request, STEPS[place + 1], answers)

    async def _leave_upstream(self, request: Request, answers: Answers, *, skip: bool) -> Response:
        if skip:
            try:
                api_address(answers.url)
            except AddressError as error:
                message = both(f"地址{error.chinese}", f"the address {error.english}")
                return self._show(request, "upstream", answers, error=message, status=422)
            return self._show(request, "model", replace(answers, models=()))
        try:
            models = await self._models(answers)
        except ProbeError as error:
            return self._show(request, "upstream", answers, error=error.message, status=422)
        return self._show(request, "model", replace(answers, models=tuple(models[:MAX_LISTED])))

    async def _test(self, request: Request) -> Response:
        answers = _answers(await self._panel.form(request))
        try:
            models = await self._models(answers)
        except ProbeError as error:
            return self._panel.fragment(request, "setup_tested.html", error=error.message, models=())
        return self._panel.fragment(request, "setup_tested.html", error="", models=models)

    async def _models(self, answers: Answers) -> list[str]:
        settings = self._panel.services.settings
        key = answers.key or (settings.api_key if answers.url == settings.api_url else "")
        async with self._probes:
            return await probe(answers.url, key, proxy_for=self._proxy)

    def _proxy(self, url: str) -> str | None:
        services = self._panel.services
        try:
            if services.settings.upstream_proxy:
                return proxy_url(services.settings.upstream_proxy, "UpstreamProxy")
            return EnvironmentProxies.read(services.config.environ).proxy_for(url)
        except (ConfigError, UpstreamConnectError) as error:
            raise ProbeError("代理设置无法使用", "the proxy setting cannot be used") from error

    async def _before_writing(
        self, request: Request, answers: Answers, *, error: str = "", taken: bool = False, status: int = 200
    ) -> Response:
        """The last step: what would be written."""
        file = await self._configuration.read()
        try:
            after = await self._configuration.edited(file.text, _settings(answers))
        except EnvEditError as refused:
            return self._show(request, "upstream", answers, error=refused.message, status=422)
        environ = await self._configuration.environment()
        return self._show(
            request,
            "write",
            answers,
            error=error,
            status=status,
            lines=await self._configuration.differences(file.text, after, secrets=False),
            fingerprint=file.fingerprint,
            overridden=[name for name in _settings(answers) if name in environ],
            taken=taken,
            map_file=MAP_FILE,
        )

    async def _write(self, request: Request, answers: Answers, form: Mapping[str, str]) -> Response:
        """Write the agent, then config.env, which is read anew; what is in the way is told and nothing is lost."""
        home = self._panel.services.in_force.home
        try:
            file = await self._configuration.read()
            after = await self._configuration.edited(file.text, _settings(answers))
            if file.fingerprint != form.get("expected", ""):
                raise EditConflictError(CONFIG_FILE, file.fingerprint, "", file.text)
            if answers.name:
                again = form.get("replace") == "on"
                await asyncio.to_thread(write_agent, home, answers.name, answers.text, replace=again)
            if after != file.text:
                await self._configuration.save(after, file.fingerprint)
        except AgentTakenError as taken:
            return await self._before_writing(request, answers, error=taken.message, taken=True, status=409)
        except (EditConflictError, BadRequestError, ConfigRefusedError, EnvEditError) as error:
            return await self._before_writing(request, answers, error=error.message, status=error.status)
        known = {"model": answers.model, "agent": answers.name.strip()}
        return RedirectResponse(f"{URL}/setup/done?{urlencode(known)}", 303)

    async def _done(self, request: Request) -> Response:
        services = self._panel.services
        model, agent = (request.query_params.get(name, "")[:200] for name in ("model", "agent"))
        return self._panel.page(
            request,
            "setup_done.html",
            PAGE,
            model=model,
            agent=agent,
            base=f"{request.url.scheme}://{request.headers.get('host', '')}/v1",
            generated=not services.settings.key,
            has_api=services.config.has_model_api,
            playground=f"{URL}/playground?{urlencode({'model': model, 'agent': agent})}",
        )

    def _show(
        self, request: Request, step: str, answers: Answers, *, status: int = 200, error: str = "", **more: Any
    ) -> Response:
        settings = self._panel.services.settings
        carried = {name: value for name, value in answers.fields().items() if name not in _ASKED[step]}
        return self._panel.page(
            request,
            "setup.html",
            PAGE,
            status=status,
            step=step,
            steps=STEPS,
            answers=answers,
            carried=carried,
            error=error,
            kept_key=bool(settings.api_key) and answers.url == settings.api_url,
            **more,
        )


_ASKED: Mapping[str, tuple[str, ...]] = {
    "upstream": ("url", "key"),
    "model": ("model",),
    "agent": ("name", "text"),
    "write": (),
}
"""The answers that each step asks for; the others are carried along."""


def _answers(form: Mapping[str, str]) -> Answers:
    models = tuple(name for name in form.get("models", "").splitlines() if name)[:MAX_LISTED]
    return Answers(
        form.get("url", "").strip(),
        form.get("key", "").strip(),
        form.get("model", "").strip(),
        models,
        form.get("name", "").strip(),
        form.get("text", "").replace("\r\n", "\n"),
    )


def _settings(answers: Answers) -> Mapping[str, str | None]:
    """What goes into config.env; without a new key the one that is there stays."""
    return {"API_URL": answers.url, **({"API_Key": answers.key} if answers.key else {})}
