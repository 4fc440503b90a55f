// Generates the messages and their types from the published .proto, and compiles twice: as ES modules and as CommonJS. Nothing of
// that is kept in git.
import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const proto = join(here, "../../proto");
const files = ["attention/v1/attention.proto", "grpc/health/v1/health.proto"];
const require = createRequire(import.meta.url);

function run(program, ...args) {
  execFileSync(process.execPath, [program, ...args], { cwd: here, stdio: "inherit" });
}

for (const folder of ["dist", "src/generated"]) {
  rmSync(join(here, folder), { recursive: true, force: true });
}
const loader = require.resolve("@grpc/proto-loader/package.json");
run(
  join(dirname(loader), "build/bin/proto-loader-gen-types.js"),
  ...["--longs=Number", "--enums=String", "--defaults", "--includeComments", "--importFileExtension=.js"],
  ...[`--includeDirs=${proto}`, "--outDir=src/generated", ...files],
);
const { Root } = createRequire(loader)("protobufjs");
const root = new Root();
root.resolvePath = (_, path) => join(proto, path);
root.loadSync(files);
writeFileSync(join(here, "src/generated/definition.ts"), `export const definition = ${JSON.stringify(root.toJSON())};\n`);

const tsc = require.resolve("typescript/bin/tsc");
run(tsc, "--outDir", "dist/esm");
run(tsc, "--outDir", "dist/cjs", "--module", "CommonJS", "--moduleResolution", "Node10");
for (const [folder, type] of [["esm", "module"], ["cjs", "commonjs"]]) {
  mkdirSync(join(here, "dist", folder), { recursive: true });
  writeFileSync(join(here, "dist", folder, "package.json"), `${JSON.stringify({ type })}\n`);
}
