// The overlays of deploy/kubernetes as kubectl renders them, against schema, types and rules; and each check against a
// manifest that breaks it.
// Runs in a folder whose node_modules has package.json's dependencies (tests/support/npm_test.sh); KUBECTL names the program.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse, parseAllDocuments, stringify } from 'yaml';
import { refusal } from './configuration.mjs';
import { kustomize, root } from './rendering.mjs';
import { problems } from './rules.mjs';
import { invalid, mistyped } from './schemas.mjs';

const OVERLAYS = ['dev', 'prod'];
const nodeModules = join(dirname(fileURLToPath(import.meta.url)), 'node_modules');
const folder = realpathSync(mkdtempSync(join(tmpdir(), 'attend-manifests-')));
after(() => rmSync(folder, { recursive: true }));

const render = (place) => kustomize(join(root, 'deploy/kubernetes', place));

const rendered = Object.fromEntries(OVERLAYS.map((overlay) => [overlay, render(`overlays/${overlay}`)]));
const namespaces = parseAllDocuments(readFileSync(join(root, 'deploy/kubernetes/namespaces.yaml'), 'utf8')).map((document) => document.toJS());
const deleted = Object.fromEntries(OVERLAYS.map((overlay) => [overlay, rendered[overlay].map(({ kind }) => kind)]));
for (const [overlay, name] of [['dev', 'attend-dev'], ['prod', 'attend']]) {
  rendered[overlay].push(namespaces.find(({ metadata }) => metadata.name === name));
}
const base = render('base');

/** Renders `prod` with a component of deploy/kubernetes, as an overlay of an operator would. */
function withComponent(name) {
  const overlay = join(folder, name);
  mkdirSync(overlay);
  const place = (of) => relative(overlay, join(root, 'deploy/kubernetes', of));
  writeFileSync(join(overlay, 'kustomization.yaml'), stringify({
    apiVersion: 'kustomize.config.k8s.io/v1beta1', kind: 'Kustomization', namespace: 'attend',
    resources: [place('overlays/prod')], components: [place(`components/${name}`)],
  }));
  return kustomize(overlay);
}
const keda = withComponent('keda');
const traces = withComponent('traces');

const find = (objects, kind) => objects.find((object) => object.kind === kind);
const pod = (objects) => find(objects, 'Deployment').spec.template.spec;
const configure = (objects, change) => {
  const map = find(objects, 'ConfigMap');
  map.data['attend.json'] = JSON.stringify({ ...JSON.parse(map.data['attend.json']), ...change });
};

// Each: an overlay, what is broken in it, which check says so, and what it says.
const BROKEN = {
  an_unknown_field: ['prod', (o) => { pod(o).containers[0].readOnlyRootFilesytem = true; }, 'type', /readOnlyRootFilesytem/],
  a_number_for_a_name: ['prod', (o) => { find(o, 'ServiceMonitor').spec.endpoints[0].port = 8002; }, 'schema', /must be string/],
  no_selector: ['dev', (o) => { delete find(o, 'Deployment').spec.selector; find(o, 'Deployment').spec.selector = { matchLabels: 3 }; }, 'schema', /matchLabels/],
  a_wrong_enumerator: ['dev', (o) => { pod(o).containers[0].imagePullPolicy = 'Sometimes'; }, 'type', /Sometimes/],
  other_labels: ['dev', (o) => { find(o, 'Deployment').spec.template.metadata.labels = { app: 'x' }; }, 'rule', /Deployment: selects/],
  a_service_of_others: ['dev', (o) => { find(o, 'Service').spec.selector = { app: 'x' }; }, 'rule', /Service: selects/],
  an_unnamed_port: ['dev', (o) => { find(o, 'Service').spec.ports[0].targetPort = 'rpc'; }, 'rule', /no container port rpc/],
  a_policy_without_port: ['prod', (o) => { find(o, 'NetworkPolicy').spec.ingress[0].ports[0].port = 'web'; }, 'rule', /no container port web/],
  a_monitor_without_port: ['prod', (o) => { find(o, 'ServiceMonitor').spec.endpoints[0].port = 'web'; }, 'rule', /no port web/],
  a_probe_elsewhere: ['prod', (o) => { pod(o).containers[0].livenessProbe.grpc.port = 8001; }, 'rule', /livenessProbe: expected gRPC/],
  a_mortal_model: ['dev', (o) => { pod(o).containers[0].livenessProbe.grpc.service = 'model/demo'; }, 'rule', /must not restart the pod/],
  another_listener: ['dev', (o) => configure(o, { listen: ['0.0.0.0:9000'] }), 'rule', /grpc is at 0.0.0.0:9000/],
  health_elsewhere: ['dev', (o) => { pod(o).containers[0].env[0].value = '0.0.0.0:9004'; }, 'rule', /health is at 0.0.0.0:9004/],
  health_of_the_file: ['dev', (o) => configure(o, { health_listen: '0.0.0.0:8004' }), 'rule', /health_listen: expected none/],
  a_request_beyond_its_limit: ['dev', (o) => { pod(o).containers[0].resources.requests.memory = '3Gi'; }, 'rule', /memory requests more/],
  a_queue_beyond_memory: ['dev', (o) => configure(o, { max_queue_bytes: 2 ** 33 }), 'rule', /what attend.json allows needs/],
  messages_beyond_memory: ['prod', (o) => configure(o, { max_message_bytes: 2 ** 30 }), 'rule', /what attend.json allows needs/],
  caches_beyond_memory: ['prod', (o) => configure(o, { max_cache_bytes: 3.6 * 2 ** 30 }), 'rule', /what attend.json allows needs/],
  caches_with_a_unit_beyond_memory: ['prod', (o) => configure(o, { max_cache_bytes: '8Gi' }), 'rule', /what attend.json allows needs [0-9.]+ bytes/],
  small_requests_beyond_memory: ['dev', (o) => configure(o, { max_queue_requests: 2 ** 14 }), 'rule', /what attend.json allows needs/],
  half_a_core: ['dev', (o) => { Object.assign(pod(o).containers[0].resources, { requests: { cpu: '500m', memory: '2Gi' }, limits: { cpu: '500m', memory: '2Gi' } }); }, 'rule', /whole cores/],
  a_rule_without_expression: ['prod', (o) => { delete find(o, 'PrometheusRule').spec.groups[0].rules[0].expr; }, 'schema', /expr/],
  a_rule_with_an_unknown_field: ['prod', (o) => { find(o, 'PrometheusRule').spec.groups[0].rules[0].severity = 'page'; }, 'type', /severity/],
  alerts_of_another_job: ['prod', (o) => { find(o, 'ServiceMonitor').spec.jobLabel = 'app'; }, 'rule', /about the job attend/],
  alerts_of_nothing: ['prod', (o) => { o.splice(o.findIndex(({ kind }) => kind === 'ServiceMonitor'), 1); }, 'rule', /nobody scrapes/],
  an_unserved_metric: ['prod', (o) => { o.splice(o.findIndex(({ kind }) => kind === 'ServiceMonitor'), 1); }, 'rule', /nobody serves/],
  no_queued_work: ['prod', (o) => { find(o, 'HorizontalPodAutoscaler').spec.metrics.shift(); }, 'rule', /queued work is not among/],
  a_port_of_another_protocol: ['prod', (o) => { find(o, 'Service').spec.ports[0].appProtocol = 'kubernetes.io/h2c'; }, 'rule', /speaks https/],
  a_hasty_rollout: ['prod', (o) => { find(o, 'Deployment').spec.minReadySeconds = 0; }, 'rule', /minReadySeconds/],
  an_impatient_rollout: ['prod', (o) => { delete find(o, 'Deployment').spec.progressDeadlineSeconds; }, 'rule', /progressDeadlineSeconds/],
  fewer_cores_than_threads: ['dev', (o) => { pod(o).containers[0].resources.requests.cpu = '100m'; }, 'rule', /thread budget/],
  min_over_max: ['dev', (o) => { find(o, 'HorizontalPodAutoscaler').spec.minReplicas = 9; }, 'rule', /minReplicas 9/],
  fixed_replicas: ['dev', (o) => { find(o, 'Deployment').spec.replicas = 3; }, 'rule', /undo the autoscaler/],
  both_budgets: ['prod', (o) => { find(o, 'PodDisruptionBudget').spec.minAvailable = 1; }, 'rule', /expected one of minAvailable/],
  root: ['prod', (o) => { pod(o).securityContext.runAsNonRoot = false; }, 'rule', /runAsNonRoot/],
  capabilities: ['prod', (o) => { pod(o).containers[0].securityContext.capabilities = { drop: [] }; }, 'rule', /capabilities/],
  a_host_path: ['prod', (o) => { pod(o).volumes.push({ name: 'host', hostPath: { path: '/' } }); }, 'rule', /volume host/],
  a_lost_volume: ['prod', (o) => { pod(o).volumes.pop(); }, 'rule', /mounted, not declared/],
  no_certificate_mount: ['prod', (o) => configure(o, { tls_key: '/tmp/key' }), 'rule', /tls_key: nothing is mounted/],
  plaintext: ['dev', (o) => configure(o, { insecure: false }), 'rule', /plaintext without insecure/],
  metrics_in_plaintext: ['prod', (o) => configure(o, { metrics_insecure: false }), 'rule', /without metrics_insecure/],
  plaintext_in_production: ['prod', (o) => configure(o, { insecure: true, tls_certificate: '' }), 'rule', /production needs TLS/],
  an_open_admin: ['prod', (o) => configure(o, { admin_listen: '0.0.0.0:8003' }), 'rule', /admin_listen leaves the pod/],
  a_short_drain: ['prod', (o) => configure(o, { drain_delay: '30s' }), 'rule', /drain_delay: expected more than max_connection_age/],
  a_hasty_end: ['prod', (o) => { pod(o).terminationGracePeriodSeconds = 30; }, 'rule', /terminationGracePeriodSeconds/],
  an_empty_way_out: ['prod', (o) => { find(o, 'NetworkPolicy').spec.egress = []; }, 'rule', /egress: expected no list/],
  a_silent_namespace: ['dev', (o) => { delete find(o, 'Namespace').metadata.labels['pod-security.kubernetes.io/warn']; }, 'rule', /does not warn restricted/],
  no_version: ['prod', (o) => { delete find(o, 'Deployment').spec.template.metadata.labels['app.kubernetes.io/version']; }, 'rule', /label app.kubernetes.io\/version/],
  a_lost_priority: ['prod', (o) => { pod(o).priorityClassName = 'important'; }, 'rule', /no PriorityClass important/],
  no_priority: ['prod', (o) => { delete pod(o).priorityClassName; }, 'rule', /of no PriorityClass/],
  a_foreign_namespace: ['prod', (o) => { find(o, 'Service').metadata.namespace = 'default'; }, 'rule', /in namespace default/],
};

const broken = Object.fromEntries(Object.entries(BROKEN).map(([name, [overlay, breakIt]]) => {
  const objects = structuredClone(rendered[overlay]);
  breakIt(objects);
  return [name, objects];
}));
const typed = Object.fromEntries(Object.entries(broken).filter(([name]) => BROKEN[name][2] === 'type'));
const types = mistyped({ ...rendered, ...typed, base, keda, traces }, folder, nodeModules);

for (const overlay of OVERLAYS) {
  test(`${overlay} is valid by schema, type and rule`, async () => {
    assert.deepEqual(await invalid(rendered[overlay]), []);
    assert.deepEqual(types[overlay], []);
    assert.deepEqual(problems(rendered[overlay]), []);
  });
}

test('base is valid, and leaves it to an overlay who scrapes it', async () => {
  assert.deepEqual(await invalid(base), []);
  assert.deepEqual(types.base, []);
  assert.match(problems(base).join('\n'), /^HorizontalPodAutoscaler: queued work is a metric that nobody serves[^\n]*$/);
});

test('traces mounts the headers that attend.json may name', async () => {
  assert.deepEqual(await invalid(traces), []);
  assert.deepEqual(types.traces, []);
  const options = { otlp_endpoint: 'http://collector.monitoring.svc:4318', otlp_headers: '/etc/attend-traces/headers' };
  const headers = (objects) => {
    configure(objects, options);
    return problems(objects).filter((text) => text.includes('otlp_headers'));
  };
  assert.deepEqual(headers(structuredClone(rendered.prod)), ['attend.json: otlp_headers: nothing is mounted at /etc/attend-traces/headers']);
  assert.deepEqual(headers(traces), []);
});

test('keda scales by the same work instead of the autoscaler', async () => {
  assert.deepEqual(await invalid(keda), []);
  assert.deepEqual(types.keda, []);
  assert.equal(find(keda, 'HorizontalPodAutoscaler'), undefined);
  const scaled = find(keda, 'ScaledObject');
  assert.equal(scaled.spec.scaleTargetRef.name, find(keda, 'Deployment').metadata.name);
  const autoscaler = find(rendered.prod, 'HorizontalPodAutoscaler').spec;
  assert.equal(scaled.spec.minReplicaCount, autoscaler.minReplicas);
  assert.equal(scaled.spec.maxReplicaCount, autoscaler.maxReplicas);
  assert.deepEqual(scaled.spec.advanced.horizontalPodAutoscalerConfig.behavior, autoscaler.behavior);
  assert.ok(scaled.spec.triggers[0].metadata.query.includes(`${autoscaler.metrics[0].pods.metric.name}{namespace="attend"}`));
});

test('production has every kind of object that is promised', () => {
  const kinds = new Set(rendered.prod.map(({ kind }) => kind));
  for (const kind of ['Namespace', 'PriorityClass', 'ServiceAccount', 'ConfigMap', 'Deployment', 'Service', 'NetworkPolicy',
    'PodDisruptionBudget', 'HorizontalPodAutoscaler', 'ServiceMonitor', 'PrometheusRule']) {
    assert.ok(kinds.has(kind), `${kind} is missing`);
  }
  assert.equal(find(rendered.prod, 'Service').spec.clusterIP, 'None');
});

test('whoever deletes an overlay keeps the namespace with its Secrets and claims', () => {
  for (const overlay of OVERLAYS) {
    for (const kind of ['Namespace', 'Secret', 'PersistentVolumeClaim']) assert.ok(!deleted[overlay].includes(kind), `${overlay} has a ${kind}`);
  }
});

test('production has the alerts of deploy/prometheus', () => {
  const { groups } = parse(readFileSync(join(root, 'deploy/prometheus/alerts.yaml'), 'utf8'));
  assert.deepEqual(find(rendered.prod, 'PrometheusRule').spec.groups, groups);
});

for (const overlay of OVERLAYS) {
  test(`the server would start with the configuration of ${overlay}`, () => {
    const config = JSON.parse(find(rendered[overlay], 'ConfigMap').data['attend.json']);
    assert.equal(refusal(config, folder), '');
    assert.match(refusal({ ...config, max_queue_byte: 1 }, folder), /max_queue_bytes/);
  });
}

for (const [name, [, , by, text]] of Object.entries(BROKEN)) {
  test(`the ${by} check refuses ${name}`, async () => {
    const said = { schema: () => invalid(broken[name]), type: () => types[name], rule: () => problems(broken[name]) };
    const found = await said[by]();
    assert.ok(found.some((line) => text.test(line)), `expected ${text}, found ${JSON.stringify(found)}`);
  });
}
