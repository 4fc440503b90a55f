// Writes a page that shows which token of a text attends to which, in one layer, as the mean of its heads.
// node attention_page.mjs TEXT [--model gpt2] [--layer 0] [--output attention.html] [--server 127.0.0.1:8001]
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { Client } from "@attend/client";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    model: { type: "string", default: "gpt2" },
    layer: { type: "string", default: "0" },
    output: { type: "string", default: "attention.html" },
    server: { type: "string", default: "127.0.0.1:8001" },
  },
});
const client = new Client({ server: values.server });
const weightsChoice = { layers: [Number(values.layer)] };
const result = await client.attend({ model: values.model, text: positionals[0], weightsChoice });
client.close();

const { shape, data } = result.layerWeights[0].weights; // [heads, rows, keys]
const [heads, rows, keys] = shape;
const mean = (row, key) => {
  let sum = 0;
  for (let head = 0; head < heads; head++) sum += data[(head * rows + row) * keys + key];
  return sum / heads;
};
const escape = (text) => text.replace(/[&<>]/g, (character) => `&#${character.codePointAt(0)};`);
const tokens = result.tokens[0].tokens.map(escape);
const cell = (weight) => `<td style="background: rgb(30 100 200 / ${weight.toFixed(3)})">${weight.toFixed(2)}</td>`;
const lines = tokens.map((token, row) => `<tr><th>${token}</th>${tokens.map((_, key) => cell(mean(row, key))).join("")}</tr>`);
const head = `<tr><th></th>${tokens.map((token) => `<th>${token}</th>`).join("")}</tr>`;
const page = `<!DOCTYPE html><meta charset="utf-8"><title>Attention</title>\n<table>\n${[head, ...lines].join("\n")}\n</table>\n`;
writeFileSync(values.output, page);
console.log(`wrote ${values.output}: rows attend to columns`);
