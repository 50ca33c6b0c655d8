// Tool clients as the protocol's documentation shows them: an owner that waits for `execute_tool`, and a caller.
// node tool_client.mjs SCENARIO ADDRESS [TOKEN]
// A token comes as a sub-protocol, as browsers send it. Prints what the two met as one line of JSON.
import WebSocket from "ws";

const [scenario, address, token] = process.argv.slice(2);

function connect() {
  const socket = token ? new WebSocket(address, [token]) : new WebSocket(address);
  const frames = [];
  const waiting = [];
  socket.on("message", (data) => {
    const frame = JSON.parse(data);
    frames.push(frame);
    for (const look of [...waiting]) look();
  });
  const send = (type, data) => socket.send(JSON.stringify({ type, data }));
  const next = (type, id) =>
    new Promise((resolve) => {
      const look = () => {
        const found = frames.find((one) => one.type === type && (!id || one.data?.executionId === id));
        if (!found) return;
        if (waiting.includes(look)) waiting.splice(waiting.indexOf(look), 1);
        resolve(found);
      };
      waiting.push(look);
      look();
    });
  return new Promise((resolve, reject) => {
    socket.on("open", () => resolve({ socket, frames, send, next }));
    socket.on("error", reject);
  });
}

const schema = {
  type: "object",
  properties: { name: { type: "string", minLength: 1 } },
  required: ["name"],
};

async function own(name, work) {
  const owner = await connect();
  owner.socket.on("message", async (data) => {
    const frame = JSON.parse(data);
    if (frame.type !== "execute_tool" || frame.data.name !== name) return;
    const { executionId, args } = frame.data;
    try {
      owner.send("tool_execution_completed", { executionId, result: await work(args) });
    } catch (error) {
      owner.send("tool_execution_failed", {
        executionId,
        error: { code: "TOOL_EXECUTION_FAILED", message: error.message },
      });
    }
  });
  owner.send("register_tool", { name, schema });
  await owner.next("tool_registered");
  return owner;
}

const scenarios = {
  async greet() {
    const owner = await own("greet", async ({ name }) => `Hello, ${name}!`);
    const caller = await connect();
    caller.send("execute_tool", { executionId: "e1", name: "greet", args: { name: "世界" } });
    await caller.next("tool_execution_completed", "e1");
    await owner.next("tool_execution_completed", "e1");
    return { owner: owner.frames, caller: caller.frames };
  },

  async failing() {
    const owner = await own("greet", async () => {
      throw new Error("nobody is here");
    });
    const caller = await connect();
    caller.send("execute_tool", { executionId: "e1", name: "greet", args: { name: "" } });
    await caller.next("tool_execution_failed", "e1");
    caller.send("execute_tool", { executionId: "e2", name: "greet", args: { name: "x" } });
    await caller.next("tool_execution_failed", "e2");
    caller.send("execute_tool", { executionId: "e3", name: "gone", args: {} });
    await caller.next("tool_execution_failed", "e3");
    return { caller: caller.frames, owner: owner.frames };
  },

  async ours() {
    const caller = await connect();
    caller.send("execute_tool", { executionId: "e1", name: "SciCalculator", args: { expression: "12*7" } });
    return { done: await caller.next("tool_execution_completed", "e1") };
  },

  async leaving() {
    const owner = await own("greet", () => new Promise(() => {}));
    const caller = await connect();
    caller.send("execute_tool", { executionId: "e1", name: "greet", args: { name: "x" } });
    await owner.next("execute_tool", "e1");
    owner.socket.terminate();
    await caller.next("tool_unregistered");
    return { caller: caller.frames };
  },
};

console.log(JSON.stringify(await scenarios[scenario]()));
process.exit(0);
