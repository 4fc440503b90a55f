// Generates the messages' types from the published .proto, and compiles; nothing of that is kept in git.
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, rmSync } from "node:fs";
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
run(
  join(dirname(require.resolve("@grpc/proto-loader/package.json")), "build/bin/proto-loader-gen-types.js"),
  ...["--longs=Number", "--enums=String", "--defaults", "--includeComments", "--importFileExtension=.js"],
  ...[`--includeDirs=${proto}`, "--outDir=src/generated", ...files],
);
run(require.resolve("typescript/bin/tsc"), "--project", "tsconfig.json");
for (const file of files) {
  const target = join(here, "dist/proto", file);
  mkdirSync(dirname(target), { recursive: true });
  copyFileSync(join(proto, file), target);
}
