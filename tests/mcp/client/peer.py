"""A small MCP server on its standard streams, without the SDK, that can behave badly; the modes are its arguments."""

import json
import os
import pathlib
import signal
import sys
import time

MODES = {mode.partition("=")[0]: mode.partition("=")[2] for mode in sys.argv[1:]}
NAMES = MODES.get("tools", "echo").split("+")
state = {"listed": 0}


def say(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def answer(request, result):
    say({"jsonrpc": "2.0", "id": request["id"], "result": result})


def refuse(request, code, text):
    say({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": text}})


def text(words, **more):
    return {"content": [{"type": "text", "text": words}], **more}


def note(what):
    if "notes" in MODES:
        with pathlib.Path(MODES["notes"]).open("a", encoding="utf-8") as file:
            file.write(what + "\n")


def tool(name):
    schema = {"type": "object", "properties": {"text": {"type": "string"}, "n": {"type": "integer"}}}
    described = {"name": name, "description": f"The tool {name}", "inputSchema": schema}
    if MODES.get("changing") and state["listed"] > 1:
        described["description"] = "Another one"
    return described


def listed(request):
    state["listed"] += 1
    if "bad-tools" in MODES:
        return {"tools": json.loads(MODES["bad-tools"])}
    if "endless-pages" in MODES:
        cursor = (request.get("params") or {}).get("cursor", "0")
        following = "again" if MODES["endless-pages"] == "same" else str(int(cursor) + 1)
        return {"tools": [tool(f"t{cursor}")], "nextCursor": following}
    return {"tools": [tool(name) for name in NAMES]}


def called(request):
    params = request["params"]
    name, arguments = params["name"], params.get("arguments") or {}
    token = (params.get("_meta") or {}).get("progressToken")
    if name == "echo":
        answer(request, text(json.dumps(arguments, ensure_ascii=False)))
    elif name == "environment":
        answer(request, text(json.dumps(dict(os.environ))))
    elif name == "crash":
        sys.stderr.write("going down\n")
        sys.stderr.flush()
        os._exit(7)
    elif name == "silent":
        note("called silent")
    elif name == "slow":
        time.sleep(float(arguments.get("text", "0.3")))
        answer(request, text("slow"))
    elif name == "progress":
        for done in range(1, 5):
            time.sleep(0.1)
            say(
                {
                    "jsonrpc": "2.0",
                    "method": "notifications/progress",
                    "params": {"progressToken": token, "progress": done, "total": 4, "message": f"step {done}"},
                }
            )
        answer(request, text("done"))
    elif name == "refuse":
        refuse(request, -32602, "not like this")
    elif name == "fail":
        answer(request, text("it went wrong", isError=True))
    elif name == "big":
        answer(request, text("x" * int(arguments["n"])))
    elif name == "junk":
        print("{oops")
        print("just a log line")
        print("")
        print('{"level":"info"}')
        answer(request, text("after junk"))
    elif name == "flood":
        sys.stderr.write("e" * 3_000_000 + "\n" + "line\n" * 5_000)
        sys.stderr.flush()
        answer(request, text("after flood"))
    elif name == "endless":
        while True:
            sys.stdout.write("y" * 65536)
    elif name == "logs":
        say(
            {
                "jsonrpc": "2.0",
                "method": "notifications/message",
                "params": {"level": "warning", "logger": "peer", "data": {"said": "hello"}},
            }
        )
        answer(request, text("logged"))
    elif name == "grow":
        NAMES.append("grown")
        say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        answer(request, text("grown"))
    elif name == "batch":
        sys.stdout.write(json.dumps([{"jsonrpc": "2.0", "id": request["id"], "result": text("in a batch")}]) + "\n")
        sys.stdout.flush()
    else:
        refuse(request, -32602, f"unknown tool {name}")


def main():
    note(f"started {os.getpid()}")
    if "fail-start" in MODES:
        sys.stderr.write("cannot find /home/somebody/secret.key\n")
        sys.exit(3)
    if "slow-start" in MODES:
        time.sleep(float(MODES["slow-start"]))
    if "stubborn" in MODES:
        signal.signal(signal.SIGTERM, lambda *_: note("SIGTERM"))
    if "helper" in MODES:
        import subprocess

        helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        note(f"helper {helper.pid}")
    while True:
        line = sys.stdin.readline()
        if not line:
            break
        request = json.loads(line)
        method = request.get("method", "")
        note(method)
        if method == "server/discover":
            if "dies-of-discover" in MODES:
                sys.exit(1)
            if "deaf" not in MODES:
                refuse(request, -32601, "what is that?")
        elif method == "initialize":
            if "mute" in MODES:
                continue
            version = MODES.get("version", request["params"]["protocolVersion"])
            answer(
                request,
                {
                    "protocolVersion": version,
                    "capabilities": {"tools": {"listChanged": True}},
                    "serverInfo": {"name": "peer", "version": "1"},
                },
            )
        elif method == "tools/list":
            answer(request, listed(request))
        elif method == "tools/call":
            called(request)
        elif "id" in request and method:
            refuse(request, -32601, "unknown method")
    while "stubborn" in MODES:
        time.sleep(0.1)
    note("end of input")


main()
