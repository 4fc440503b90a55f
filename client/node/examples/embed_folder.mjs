// Embeds the texts of a folder with a model, and prints the nearest other text of each.
// node embed_folder.mjs FOLDER [--model bert] [--server 127.0.0.1:8001]
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Client } from "@attend/client";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { model: { type: "string", default: "bert" }, server: { type: "string", default: "127.0.0.1:8001" } },
});
const [folder] = positionals;
const names = readdirSync(folder).filter((name) => name.endsWith(".txt")).sort();
const client = new Client({ server: values.server });
const embeddings = [];
for (let first = 0; first < names.length; first += 32) {
  const text = names.slice(first, first + 32).map((name) => readFileSync(join(folder, name), "utf8"));
  const result = await client.attend({ model: values.model, text, modelOutput: "MEAN_POOLED" });
  embeddings.push(...result.split().map((row) => row.toFloat32())); // [d_model] for each text
}
client.close();

const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
const cosine = (a, b) => dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
names.forEach((name, i) => {
  const others = names.map((other, j) => ({ other, similarity: i === j ? -1 : cosine(embeddings[i], embeddings[j]) }));
  const nearest = others.reduce((best, one) => (one.similarity > best.similarity ? one : best));
  console.log(`${name} is nearest to ${nearest.other} (cosine ${nearest.similarity.toFixed(3)})`);
});
