// The examples of the package: those of its README, and the programs of its folder `examples`, run as they stand.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { Client } from "@attend/client";
import { repository, startServerWithModels } from "./support.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const programs = join(repository, "client/node/examples");
const folder = mkdtempSync(join(tmpdir(), "attend-examples-"));
let server;
before(async () => (server = await startServerWithModels(Client)));
after(async () => {
  rmSync(folder, { recursive: true });
  await server.stop();
});

/** What the program prints; it runs beside this file, where the package is installed. */
function run(name, ...args) {
  const file = join(here, name);
  copyFileSync(join(programs, name), file);
  return execFileSync(process.execPath, [file, ...args, `--server=${server.address}`], { encoding: "utf8", timeout: 300_000 });
}

test("every example of the README runs", () => {
  const text = readFileSync(join(repository, "client/node/README.md"), "utf8");
  const examples = [...text.matchAll(/^```js\n(.*?)^```/gms)].map(([, program]) => program);
  assert.ok(examples.length > 2);
  examples.forEach((example, i) => {
    const file = join(here, `example${i}.mjs`);
    assert.ok(example.includes("127.0.0.1:8001"));
    writeFileSync(file, example.replaceAll("127.0.0.1:8001", server.address));
    execFileSync(process.execPath, [file], { stdio: "inherit", timeout: 300_000 });
  });
});

test("every program is run here", () => {
  const names = readdirSync(programs).filter((name) => name.endsWith(".mjs"));
  const tests = readFileSync(fileURLToPath(import.meta.url), "utf8");
  assert.ok(names.length > 3);
  assert.deepEqual(names.filter((name) => !tests.includes(`run("${name}"`)), []);
});

test("embed_folder finds the nearest text", () => {
  Object.entries({ a: "the cat sat", b: "the cat sat", c: "on the mat" }).forEach(([name, text]) =>
    writeFileSync(join(folder, `${name}.txt`), text),
  );
  const lines = run("embed_folder.mjs", folder, "--model=gpt2").trim().split("\n");
  assert.equal(lines.length, 3);
  assert.equal(lines[0], "a.txt is nearest to b.txt (cosine 1.000)");
});

test("stream_sequence prints every block", () => {
  const lines = run("stream_sequence.mjs", "--length=1500").trim().split("\n");
  assert.ok(lines.length > 2);
  assert.match(lines[0], /^rows 0 to /);
  assert.match(lines.at(-2), / to 1499, first value/);
  assert.match(lines.at(-1), /^1500 rows, computed in /);
});

test("decode_session continues a text", () => {
  const said = run("decode_session.mjs", "the cat sat", "--model=gpt2", "--tokens=4");
  assert.match(said, /\n9 tokens in the session, \d+ bytes/); // [CLS] the cat sat [SEP], and four
});

test("attention_page has a row for each token", () => {
  const page = join(folder, "page.html");
  run("attention_page.mjs", "the cat sat", "--model=gpt2", `--output=${page}`);
  const html = readFileSync(page, "utf8");
  assert.equal(html.split("<tr>").length, 1 + 1 + 5);
  assert.ok(html.includes("<th>cat</th><td"));
  assert.equal(html.split("<td ").length, 1 + 5 * 5);
});
