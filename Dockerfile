# The server in a container: no root, no build tools, one volume. docs/deploy.md says how to use it.
#   docker compose up -d --build
# 容器镜像：不以 root 运行，不含构建工具，只有一个数据卷。用法见 docs/deploy.md。

FROM debian:trixie-slim AS build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
RUN python3 -m venv /opt/vcp
COPY requirements/run.lock requirements/run.lock
RUN /opt/vcp/bin/python -m pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements/run.lock
COPY pyproject.toml README.md LICENSE config.env.example ./
COPY app app
COPY Plugin Plugin
COPY Agent/Nova.txt Agent/Nova.txt
COPY TVStxt/ToolGuide.txt TVStxt/ToolGuide.txt
RUN /opt/vcp/bin/python -m pip install --no-cache-dir --disable-pip-version-check --no-index --no-deps --no-build-isolation . \
    && /opt/vcp/bin/python -m compileall -q /opt/vcp

FROM debian:trixie-slim
# Interpreters for plugins of your own, for instance "nodejs npm". 你自己的插件需要的解释器，例如 "nodejs npm"。
ARG EXTRA_PACKAGES=""
# The list is meant to be split into words, and the newest security fixes are wanted.
# hadolint ignore=DL3008,SC2086
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates python3 tini tzdata ${EXTRA_PACKAGES} \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 1000 vcp \
    && useradd --uid 1000 --gid 1000 --home-dir /data --no-create-home --shell /usr/sbin/nologin vcp \
    && install --directory --owner vcp --group vcp --mode 0750 /data
COPY --from=build /opt/vcp /opt/vcp
# These win over config.env, so a config.env made for a bare machine (HOST=127.0.0.1) serves here too.
ENV HOST=0.0.0.0 \
    PORT=6005 \
    RestartMode=exit \
    PATH=/opt/vcp/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
USER 1000:1000
WORKDIR /data
VOLUME /data
EXPOSE 6005
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
    CMD ["/opt/vcp/bin/python", "-c", "import os, urllib.request as r; r.build_opener(r.ProxyHandler({})).open('http://127.0.0.1:' + os.environ['PORT'] + '/healthz', timeout=4)"]
ENTRYPOINT ["/usr/bin/tini", "--", "/opt/vcp/bin/vcp"]
CMD ["serve"]
