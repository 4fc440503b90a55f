// The objects of a kustomization and of the Helm chart, as their programs render them.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseAllDocuments } from 'yaml';

export const root = process.env.ATTEND_SOURCE;
export const CHART = join(root, 'deploy/helm/attend');

// YAML 1.1, as Kubernetes reads it: 0440 is octal.
function objectsOf(text) {
  const documents = parseAllDocuments(text, { version: '1.1' });
  for (const { errors } of documents) assert.deepEqual(errors, []);
  return documents.map((document) => document.toJS()).filter(Boolean);
}

/** What `kubectl kustomize` makes of this folder. */
export function kustomize(folder) {
  return objectsOf(execFileSync(process.env.KUBECTL ?? 'kubectl', ['kustomize', folder], { encoding: 'utf8' }));
}

const byName = (objects) => Object.fromEntries(objects.map((object) => [`${object.kind} ${object.metadata.name}`, object]));
// helm where there is one, for the newest Kubernetes instead of that of its own time; and chart_template.go.
const programs = [...(process.env.HELM ? [[process.env.HELM, '--kube-version=1.36.0']] : []), [process.env.CHART_TEMPLATE]];

/** The chart with these values, an object or a file's name: objects, or what was said of wrong values, by the stand-in last. */
export function chart(values, folder, { release = 'attend', namespace = 'attend', of = CHART } = {}) {
  const file = typeof values === 'string' ? join(CHART, values) : join(folder, 'values.json');
  if (typeof values !== 'string') writeFileSync(file, JSON.stringify(values));
  const all = programs.map(([program, ...flags]) => {
    const run = spawnSync(program, ['template', ...flags, '--namespace', namespace, '--values', file, release, of], { encoding: 'utf8' });
    return run.status === 0 ? { objects: objectsOf(run.stdout) } : { said: run.stderr };
  });
  for (const { objects } of all) assert.deepEqual(objects && byName(objects), all[0].objects && byName(all[0].objects), 'helm differs from its stand-in');
  return { objects: all[0].objects, said: all.map(({ said }) => said) };
}

/** What NOTES.txt says to whom installs the chart with this file of values, by the stand-in alone. */
export function notes(values) {
  return execFileSync(process.env.CHART_TEMPLATE, ['template', '--notes', '--namespace', 'attend', '--values', resolve(CHART, values), 'attend', CHART], { encoding: 'utf8' });
}

/** The leaves of an object by their path; elements of a list by their name or type where they have one. */
export function leaves(value, path = '') {
  if (value === null || typeof value !== 'object' || Object.keys(value).length === 0) return { [path]: value };
  const entries = Array.isArray(value) ? value.map((one, i) => [one?.name ?? one?.type ?? i, one]) : Object.entries(value);
  return Object.assign({}, ...entries.map(([key, one]) => leaves(one, path ? `${path}.${key}` : `${key}`)));
}

/** Where two lists of objects differ: lines `PATH: expected -> found`, in alphabetical order. */
export function differences(expected, found) {
  const read = (objects) => leaves(Object.fromEntries(objects.map((object) => {
    if (object.kind !== 'ConfigMap') return [`${object.kind} ${object.metadata.name}`, object];
    return ['ConfigMap', { ...object, data: { 'attend.json': JSON.parse(object.data['attend.json']) } }];
  })));
  const [before, after] = [read(expected), read(found)];
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].sort()
    .filter((path) => JSON.stringify(before[path]) !== JSON.stringify(after[path]))
    .map((path) => `${path}: ${JSON.stringify(before[path])} -> ${JSON.stringify(after[path])}`);
}
