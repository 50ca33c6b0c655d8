// The official Node client in one scenario; prints what it met as one line of JSON.
// node openai_client.mjs SCENARIO BASE_URL KEY
import OpenAI from "openai";

const [scenario, baseURL, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const asking = (content) => ({ model: "vcp-demo", messages: [{ role: "user", content }] });

async function read(stream) {
  const seen = { text: "", roles: [], finishes: [] };
  for await (const chunk of stream) {
    for (const { delta, finish_reason } of chunk.choices) {
      seen.text += delta.content ?? "";
      if (delta.role) seen.roles.push(delta.role);
      if (finish_reason) seen.finishes.push(finish_reason);
    }
  }
  return seen;
}

async function caught(promise) {
  try {
    await promise;
  } catch (error) {
    return { class: error.constructor.name, status: error.status, code: error.code, message: error.message };
  }
  return { class: null };
}

const scenarios = {
  async whole() {
    const answer = await client.chat.completions.create(asking("What is 12*7?"));
    const [choice] = answer.choices;
    return { text: choice.message.content, finishes: [choice.finish_reason], total: answer.usage.total_tokens };
  },

  async stream() {
    return read(await client.chat.completions.create({ ...asking("What is 2**10, and what is 17*3?"), stream: true }));
  },

  async helper() {
    const stream = client.chat.completions.stream(asking("What is 12*7?"));
    return { text: await stream.finalContent() };
  },

  async together() {
    const numbers = Array.from({ length: 20 }, (_, index) => 101 + index);
    const ask = async (number) => {
      const body = { ...asking(`What is ${number}*1001?`), stream: true };
      return [number, (await read(await client.chat.completions.create(body))).text];
    };
    return { answers: await Promise.all(numbers.map(ask)) };
  },

  async interrupt() {
    const body = { ...asking("slow"), stream: true, requestId: "node-1" };
    const stream = await client.chat.completions.create(body);
    let told = null;
    const seen = await read(
      (async function* () {
        for await (const chunk of stream) {
          told ??= await client.post("/interrupt", { body: { requestId: "node-1" } });
          yield chunk;
        }
      })(),
    );
    return { told, ...seen };
  },

  async leave() {
    const stream = await client.chat.completions.create({ ...asking("slow"), stream: true });
    for await (const chunk of stream) break;
    return { text: (await client.chat.completions.create(asking("hello"))).choices[0].message.content };
  },

  async models() {
    return { ids: (await client.models.list()).data.map(({ id }) => id) };
  },

  async errors() {
    const wrong = new OpenAI({ baseURL, apiKey: "wrong", maxRetries: 0 });
    return {
      wrongKey: await caught(wrong.chat.completions.create(asking("hello"))),
      wrongKeyStreamed: await caught(wrong.chat.completions.create({ ...asking("hello"), stream: true })),
      badMessages: await caught(client.chat.completions.create({ model: "vcp-demo", messages: "hello" })),
      notOffered: await caught(client.files.list()),
    };
  },
};

console.log(JSON.stringify(await scenarios[scenario]()));
