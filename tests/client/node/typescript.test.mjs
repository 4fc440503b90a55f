// The package's types, as TypeScript projects see them: those of `typescript` compile with the two ways to resolve modules.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const folder = join(dirname(fileURLToPath(import.meta.url)), "typescript");
const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");

for (const resolution of ["node16", "bundler"]) {
  test(`a project with moduleResolution ${resolution} compiles`, () => {
    const { status, stdout } = spawnSync(process.execPath, [tsc, "-p", join(folder, `tsconfig.${resolution}.json`)], {
      encoding: "utf8",
      timeout: 300_000,
    });
    assert.equal(status, 0, stdout);
  });
}
