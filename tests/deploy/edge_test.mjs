// The overlay `edge` as kubectl renders it: schema and types, and whether it fits what it stands before (the overlay `prod`)
// and what it starts (deploy/edge).
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse, stringify } from 'yaml';
import { kustomize, root } from './rendering.mjs';
import { isSubset, security } from './rules.mjs';
import { invalid, mistyped } from './schemas.mjs';

const nodeModules = join(dirname(fileURLToPath(import.meta.url)), 'node_modules');
const folder = realpathSync(mkdtempSync(join(tmpdir(), 'attend-edge-')));
after(() => rmSync(folder, { recursive: true }));

const render = (overlay) => kustomize(join(root, 'deploy/kubernetes/overlays', overlay));
const read = (name) => readFileSync(join(root, 'deploy/edge', name), 'utf8');
const find = (objects, kind, name) => objects.find((object) => object.kind === kind && (!name || object.metadata.name === name));
const edge = render('edge');
const prod = render('prod');

/** The value of each of start.sh's variables in this container: what `env` says, else its default. */
function variables(container) {
  const defaults = [...read('start.sh').matchAll(/^: "\$\{(EDGE_\w+):=(.*?)\}"/gm)].map(([, name, value]) => [name, value]);
  return { ...Object.fromEntries(defaults), ...Object.fromEntries((container.env ?? []).map(({ name, value }) => [name, value])) };
}

function* problems(objects) {
  const { template, selector, minReadySeconds = 0 } = find(objects, 'Deployment').spec;
  const [container] = template.spec.containers;
  const servers = find(prod, 'Deployment').spec.template;
  yield* security({ objects, pod: template, container });
  for (const { kind, metadata } of objects) if (metadata.namespace !== 'attend') yield `${kind} ${metadata.name}: not in the namespace attend`;

  const own = [['Deployment', selector.matchLabels], ['Service', find(objects, 'Service', 'attend-edge').spec.selector],
    ['NetworkPolicy', find(objects, 'NetworkPolicy').spec.podSelector.matchLabels],
    ['PodDisruptionBudget', find(objects, 'PodDisruptionBudget').spec.selector.matchLabels]];
  for (const [who, labels] of own) {
    if (!isSubset(labels, template.metadata.labels)) yield `${who}: does not select the edge`;
    if (isSubset(labels, servers.metadata.labels)) yield `${who}: selects the servers, too`;
  }
  const behind = find(objects, 'Service', 'attend-servers').spec;
  if (!isSubset(behind.selector, servers.metadata.labels)) yield 'attend-servers: selects no server';
  if (behind.clusterIP === 'None') yield 'attend-servers: headless: nginx looks a name up once, when it starts';
  const [client] = find(prod, 'NetworkPolicy').spec.ingress[0].from;
  if (!isSubset(client.podSelector.matchLabels, template.metadata.labels)) yield "Deployment: the servers' policy does not let it in";
  const grpc = servers.spec.containers[0].ports.find(({ name }) => name === 'grpc').containerPort;
  const leaves = find(objects, 'NetworkPolicy').spec.egress[0];
  if (!leaves.ports.some(({ port }) => port === grpc)) yield `NetworkPolicy: does not let it out to port ${grpc}`;
  if (!isSubset(leaves.to[0].podSelector.matchLabels, servers.metadata.labels)) yield 'NetworkPolicy: does not let it out to the servers';

  const value = variables(container);
  if (value.EDGE_SERVER !== `attend-servers:${behind.ports[0].port}`) yield `EDGE_SERVER: ${value.EDGE_SERVER} is not the Service attend-servers`;
  if (value.EDGE_LISTEN !== `${container.ports[0].containerPort}`) yield `EDGE_LISTEN: ${value.EDGE_LISTEN} is not the container's port`;
  if (!value.EDGE_SERVER_CA) yield 'EDGE_SERVER_CA: plaintext to servers that speak TLS';
  for (const name of ['EDGE_CERTIFICATE', 'EDGE_KEY', 'EDGE_SERVER_CA', 'EDGE_FOLDER']) {
    const isThere = container.volumeMounts.some(({ mountPath }) => `${value[name]}/`.startsWith(`${mountPath}/`));
    if (!isThere) yield `${name}: nothing is mounted at ${value[name]}`;
  }
  for (const { name } of container.env) if (!read('start.sh').includes(`"\${${name}:=`)) yield `${name}: start.sh knows no such variable`;
  const { max_message_bytes } = JSON.parse(find(prod, 'ConfigMap').data['attend.json']);
  if (value.EDGE_MESSAGE_BYTES !== `${max_message_bytes}`) yield `EDGE_MESSAGE_BYTES: ${value.EDGE_MESSAGE_BYTES} is not the servers' ${max_message_bytes}`;
  const sleep = container.lifecycle.preStop.sleep.seconds;
  // Slower than the balancer's health checks of nodes.
  if (find(objects, 'Service', 'attend-edge').spec.externalTrafficPolicy === 'Local') {
    for (const [name, wait] of [['preStop', sleep], ['minReadySeconds', minReadySeconds]]) if (!(wait >= 30)) yield `${name}: expected at least 30 s with externalTrafficPolicy Local, found ${wait}`;
  }
  const ending = Number(read('nginx.conf.template').match(/worker_shutdown_timeout (\d+)s/)[1]);
  if (!(template.spec.terminationGracePeriodSeconds > sleep + ending)) yield `terminationGracePeriodSeconds: expected more than ${sleep + ending}`;
}

const pod = (objects) => find(objects, 'Deployment').spec.template;
const setting = (objects, name) => pod(objects).spec.containers[0].env.find((one) => one.name === name);
const BROKEN = {
  root: [(o) => { pod(o).spec.securityContext.runAsNonRoot = false; }, /runAsNonRoot/],
  a_stranger_to_the_servers: [(o) => { delete pod(o).metadata.labels['attend-client']; }, /policy does not let it in/],
  a_service_of_servers: [(o) => { find(o, 'Service', 'attend-edge').spec.selector = { 'app.kubernetes.io/name': 'attend' }; }, /Service: does not select/],
  a_headless_name: [(o) => { find(o, 'Service', 'attend-servers').spec.clusterIP = 'None'; }, /headless/],
  another_server: [(o) => { setting(o, 'EDGE_SERVER').value = 'attend:8001'; }, /EDGE_SERVER: attend:8001/],
  messages_beyond_the_servers: [(o) => { setting(o, 'EDGE_MESSAGE_BYTES').value = '268435456'; }, /EDGE_MESSAGE_BYTES: 268435456 is not the servers' 134217728/],
  a_misspelt_variable: [(o) => { setting(o, 'EDGE_WORKERS').name = 'EDGE_WORKER'; }, /EDGE_WORKER: start.sh knows/],
  plaintext_to_the_servers: [(o) => { setting(o, 'EDGE_SERVER_CA').value = ''; }, /plaintext to servers/],
  no_certificate: [(o) => { pod(o).spec.containers[0].volumeMounts.shift(); }, /EDGE_CERTIFICATE: nothing is mounted/],
  a_closed_way_out: [(o) => { find(o, 'NetworkPolicy').spec.egress[0].ports[0].port = 8002; }, /out to port 8001/],
  a_hasty_rollout: [(o) => { delete find(o, 'Deployment').spec.minReadySeconds; }, /minReadySeconds: expected at least 30 s .* found 0/],
  a_pod_that_balancers_still_know: [(o) => { pod(o).spec.containers[0].lifecycle.preStop.sleep.seconds = 5; }, /preStop: expected at least 30 s .* found 5/],
  a_hasty_end: [(o) => { pod(o).spec.terminationGracePeriodSeconds = 30; }, /terminationGracePeriodSeconds/],
};

test('the overlay is valid by schema and type, and fits the servers and start.sh', async () => {
  assert.deepEqual(await invalid(edge), []);
  assert.deepEqual(mistyped({ edge }, folder, nodeModules).edge, []);
  assert.deepEqual([...problems(edge)], []);
});

for (const [name, [breakIt, text]] of Object.entries(BROKEN)) {
  test(`the rules refuse ${name}`, () => {
    const broken = structuredClone(edge);
    breakIt(broken);
    assert.match([...problems(broken)].join('\n'), text);
  });
}

test("README's patch for another DNS replaces the rule of DNS, and keeps the way to the servers", () => {
  const chapter = readFileSync(join(root, 'deploy/kubernetes/README.md'), 'utf8');
  const [, patches] = chapter.match(/^    # overlays\/edge\/kustomization.yaml\n((?:    .*\n)+)/m);
  const place = join(folder, 'dns');
  mkdirSync(place);
  writeFileSync(join(place, 'kustomization.yaml'), stringify({
    apiVersion: 'kustomize.config.k8s.io/v1beta1', kind: 'Kustomization', namespace: 'attend',
    components: [relative(place, join(root, 'deploy/kubernetes/components/edge'))], ...parse(patches),
  }));
  const rules = find(kustomize(place), 'NetworkPolicy').spec.egress;
  const before = find(edge, 'NetworkPolicy').spec.egress;
  assert.equal(rules.length, 2);
  assert.deepEqual(rules[0], before[0]);
  assert.deepEqual(rules[1], { to: [{ ipBlock: { cidr: '169.254.20.10/32' } }], ports: before[1].ports });
});

test('each word that the template leaves open is filled in by start.sh', () => {
  const open = new Set([...read('nginx.conf.template').matchAll(/@(EDGE_\w+)@/g)].map(([, name]) => name));
  const filled = new Set([...read('start.sh').matchAll(/(?:fill|replace) (EDGE_\w+) /g)].map(([, name]) => name));
  assert.deepEqual([...open].sort(), [...filled].sort());
});

test('the image has what start.sh starts from', () => {
  const image = read('Dockerfile');
  assert.match(image, /COPY nginx\.conf\.template start\.sh /);
  assert.match(image, /install .*\bnginx\b/);
  assert.match(image, /USER 65532:65532/);
  assert.match(image, /STOPSIGNAL SIGQUIT/);
});
