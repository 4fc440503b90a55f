// Continues a text in a session: the server keeps keys and values, so that each step costs one token.
// node decode_session.mjs PROMPT [--model gpt2] [--tokens 20] [--server 127.0.0.1:8001]
import { parseArgs } from "node:util";
import { Client } from "@attend/client";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    model: { type: "string", default: "gpt2" },
    tokens: { type: "string", default: "20" },
    server: { type: "string", default: "127.0.0.1:8001" },
  },
});
const client = new Client({ server: values.server });
const session = await client.session({ model: values.model });
let step = await session.step({ text: positionals[0], topLogits: 1 });
for (let i = 0; i < Number(values.tokens); i++) {
  process.stdout.write(`${Buffer.from(step.topLogits.tokens[0]).toString()} `);
  step = await session.step({ tokenIds: [step.topLogits.ids[0]], topLogits: 1 });
}
console.log(`\n${step.length} tokens in the session, ${step.usage.cacheBytes} bytes of keys and values`);
await session.close();
client.close();
