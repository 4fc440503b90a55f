// The same objects against Kubernetes' schema (validate() of kubernetes-models) and as typed literals (tsc): the first does not
// see unknown fields, the second no patterns or ranges.
import { spawnSync } from 'node:child_process';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const packageOf = (apiVersion) =>
  apiVersion.startsWith('monitoring.coreos.com/') ? `@kubernetes-models/prometheus-operator/${apiVersion}`
    : apiVersion.startsWith('keda.sh/') ? `@kubernetes-models/keda/${apiVersion}`
      : `kubernetes-models/${apiVersion}`;

/** What validate() says, in words. */
export async function invalid(objects) {
  const said = [];
  for (const object of objects) {
    const { [object.kind]: Model } = await import(packageOf(object.apiVersion));
    try {
      new Model(object).validate();
    } catch (error) {
      said.push(`${object.kind} ${object.metadata.name}: ${error.message}`);
    }
  }
  return said;
}

function literal(objects) {
  const lines = objects.map((object, i) =>
    [`import type { I${object.kind} as T${i} } from '${packageOf(object.apiVersion)}';`,
      `export const o${i}: T${i} = ${JSON.stringify(object)};`].join('\n'));
  return lines.join('\n');
}

/** tsc's errors by case; `cases` are lists of objects by name. One run: tsc takes seconds to start. */
export function mistyped(cases, folder, nodeModules) {
  mkdirSync(folder, { recursive: true });
  try {
    symlinkSync(nodeModules, join(folder, 'node_modules'));
  } catch (error) {
    if (error.code !== 'EEXIST') throw error;
  }
  for (const [name, objects] of Object.entries(cases)) writeFileSync(join(folder, `${name}.ts`), literal(objects));
  const files = Object.keys(cases).map((name) => `${name}.ts`);
  const options = ['--noEmit', '--strict', '--skipLibCheck', '--module', 'nodenext', '--moduleResolution', 'nodenext'];
  const { stdout, status } = spawnSync(process.execPath, [join(nodeModules, 'typescript/bin/tsc'), ...options, ...files], { cwd: folder, encoding: 'utf8' });
  const errors = stdout.split('\n').filter((line) => line.includes('error TS'));
  if (status !== 0 && errors.length === 0) throw new Error(`tsc failed: ${stdout}`);
  const stray = errors.filter((line) => !files.some((file) => line.startsWith(`${file}(`)));
  if (stray.length > 0) throw new Error(`tsc: ${stray[0]}`);
  return Object.fromEntries(Object.keys(cases).map((name) => [name, errors.filter((line) => line.startsWith(`${name}.ts(`))]));
}
