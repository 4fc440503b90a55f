// The Helm chart: the objects that it renders from each value, against schema, types, our rules and the overlays of
// deploy/kubernetes; and what it says of wrong values.
// CHART_TEMPLATE names chart_template.go, HELM a helm if there is one: then both render everything, and must agree.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse, parseAllDocuments } from 'yaml';
import { refusal } from './configuration.mjs';
import { CHART, chart, differences, kustomize, leaves, notes, root } from './rendering.mjs';
import { isSubset, problems } from './rules.mjs';
import { invalid, mistyped } from './schemas.mjs';

const nodeModules = join(dirname(fileURLToPath(import.meta.url)), 'node_modules');
const folder = realpathSync(mkdtempSync(join(tmpdir(), 'attend-chart-')));
after(() => rmSync(folder, { recursive: true }));
const read = (file) => readFileSync(join(root, file), 'utf8');
const overlay = (name) => kustomize(join(root, 'deploy/kubernetes', name));

const find = (objects, kind, name = 'attend') => objects.find((object) => object.kind === kind && object.metadata.name === name);
const pod = (objects, name) => find(objects, 'Deployment', name).spec.template.spec;
const container = (objects, name) => pod(objects, name).containers[0];
const config = (objects) => JSON.parse(objects.find(({ kind }) => kind === 'ConfigMap').data['attend.json']);
const mounted = (objects, volume) => [pod(objects).volumes.find(({ name }) => name === volume), container(objects).volumeMounts.find(({ name }) => name === volume)?.mountPath];
const secret = (name) => ({ secretName: name, defaultMode: 0o440 });
const cpu = { type: 'Resource', resource: { name: 'cpu', target: { type: 'Utilization', averageUtilization: 70 } } };
const client = { namespaceSelector: { matchLabels: { team: 'a' } } };
const way = { to: [{ podSelector: { matchLabels: { app: 'collector' } } }], ports: [{ protocol: 'TCP', port: 4318 }] };
const dns = { to: [{ ipBlock: { cidr: '169.254.20.10/32' } }], ports: [{ protocol: 'UDP', port: 53 }] };
const toleration = { key: 'attend', operator: 'Exists', effect: 'NoSchedule' };
const affinity = { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchExpressions: [{ key: 'a', operator: 'Exists' }] }] } } };
const digest = `sha256:${'0a'.repeat(32)}`;
const edgeResources = { requests: { cpu: '2', memory: '2Gi' }, limits: { cpu: '2', memory: '2Gi' } };

// Each: values, and what they change: pairs of what is expected and what is found.
const VALUES = {
  an_image_by_tag: [{ image: { repository: 'registry:5000/ours/attend', tag: '7', pullPolicy: 'Always', pullSecrets: ['ours'] } },
    (o) => [['registry:5000/ours/attend:7', container(o).image], ['Always', container(o).imagePullPolicy], [[{ name: 'ours' }], pod(o).imagePullSecrets]]],
  an_image_by_digest: [{ image: { digest } }, (o) => [[`attend@${digest}`, container(o).image]]],
  a_fixed_number: [{ replicas: 3, autoscaling: { enabled: false } },
    (o) => [[3, find(o, 'Deployment').spec.replicas], [undefined, find(o, 'HorizontalPodAutoscaler')], [35, find(o, 'Deployment').spec.minReadySeconds]]],
  one_server: [{ replicas: 1, autoscaling: { enabled: false } }, (o) => [[0, find(o, 'Deployment').spec.minReadySeconds]]],
  a_part_of_another_chart: [{ enabled: true, global: { a: 1 } }, (o) => [[undefined, config(o).enabled]]],
  a_number_of_others: [{ replicas: null, autoscaling: { enabled: false } },
    (o) => [[undefined, find(o, 'Deployment').spec.replicas], [35, find(o, 'Deployment').spec.minReadySeconds]]],
  a_claim: [{ models: { existingClaim: 'ours', required: ['a', 'b'] } },
    (o) => [[{ name: 'models', persistentVolumeClaim: { claimName: 'ours', readOnly: true } }, mounted(o, 'models')[0]], ['/models', mounted(o, 'models')[1]],
      ['/models', config(o).models], [['a', 'b'], config(o).required_models], ['model/*', container(o).readinessProbe.grpc.service], [undefined, find(o, 'PersistentVolumeClaim', 'attend-models')]]],
  all_models: [{ models: { existingClaim: 'ours', required: [] } }, (o) => [[undefined, config(o).required_models]]],
  a_new_claim: [{ models: { newClaim: { size: '20Gi', storageClassName: 'nfs', accessModes: ['ReadOnlyMany'] } } },
    (o) => [['attend-models', mounted(o, 'models')[0].persistentVolumeClaim.claimName], [['none'], config(o).required_models],
      [{ accessModes: ['ReadOnlyMany'], storageClassName: 'nfs', resources: { requests: { storage: '20Gi' } } }, find(o, 'PersistentVolumeClaim', 'attend-models').spec],
      ['keep', find(o, 'PersistentVolumeClaim', 'attend-models').metadata.annotations['helm.sh/resource-policy']]]],
  plaintext: [{ tls: { enabled: false } },
    (o) => [[true, config(o).insecure], [undefined, config(o).tls_key], [undefined, mounted(o, 'tls')[0]], ['kubernetes.io/h2c', find(o, 'Service').spec.ports[0].appProtocol]]],
  client_certificates: [{ tls: { secret: 'ours', clientCa: { secret: 'theirs', key: 'ca.pem' } } },
    (o) => [[secret('ours'), mounted(o, 'tls')[0].secret], [secret('theirs'), mounted(o, 'client-ca')[0].secret],
      ['/etc/attend-client-ca', mounted(o, 'client-ca')[1]], ['/etc/attend-client-ca/ca.pem', config(o).tls_client_ca]]],
  tokens: [{ tokens: { secret: 'ours', key: 't.json' } }, (o) => [[secret('ours'), mounted(o, 'tokens')[0].secret], ['/etc/attend-tokens/t.json', config(o).tokens]]],
  headers_of_traces: [{ traces: { headers: { secret: 'ours', key: 'h' } }, config: { otlp_endpoint: 'http://collector:4318', trace_sample_ratio: 0.5 }, networkPolicy: { egress: [way] } },
    (o) => [[secret('ours'), mounted(o, 'traces')[0].secret], ['/etc/attend-traces', mounted(o, 'traces')[1]], ['/etc/attend-traces/h', config(o).otlp_headers]]],
  cores_and_memory: [{ resources: { cpu: 8, memory: '16384Mi' } },
    (o) => [[{ requests: { cpu: '8', memory: '16384Mi' }, limits: { cpu: '8', memory: '16384Mi' } }, container(o).resources]]],
  options: [{ config: { threads: 3, log_format: null, drain_delay: '1m30s', grace_period: '500ms', max_connection_age: '1m', max_connection_age_grace: '2h',
    max_queue_bytes: 300000000, max_reply_bytes: 1e8, max_cache_bytes: 2e8, max_message_bytes: 1e7, max_connections: 1e3 } },
  (o) => [[3, config(o).threads], [undefined, config(o).log_format], [300000000, config(o).max_queue_bytes], [101, pod(o).terminationGracePeriodSeconds]]],
  durations_in_seconds: [{ config: { grace_period: 86400, drain_delay: '40', max_queue_wait: 1.5 } },
    (o) => [[86400 + 40 + 10, pod(o).terminationGracePeriodSeconds], ['40', config(o).drain_delay], [1.5, config(o).max_queue_wait]]],
  connections_of_any_age: [{ config: { max_connection_age: '0s', drain_delay: '0s' } }, (o) => [['0s', config(o).max_connection_age]]],
  a_scale: [{ autoscaling: { minReplicas: 4, maxReplicas: 5, cpu: 70 } },
    (o) => [[4, find(o, 'HorizontalPodAutoscaler').spec.minReplicas], [5, find(o, 'HorizontalPodAutoscaler').spec.maxReplicas], [[cpu], find(o, 'HorizontalPodAutoscaler').spec.metrics]]],
  one_server_at_first: [{ autoscaling: { minReplicas: 1 } }, (o) => [[35, find(o, 'Deployment').spec.minReadySeconds]]],
  queued_work: [{ monitoring: { enabled: true }, autoscaling: { queuedWork: '0.5' } },
    (o) => [[{ metric: { name: 'attend_queued_work_seconds' }, target: { type: 'AverageValue', averageValue: '0.5' } }, find(o, 'HorizontalPodAutoscaler').spec.metrics[0].pods]]],
  large_models: [{ startup: { patience: '1h30m1s' } },
    (o) => [[{ grpc: { port: 8004 }, periodSeconds: 2, failureThreshold: 2701 }, container(o).startupProbe], [6001, find(o, 'Deployment').spec.progressDeadlineSeconds]]],
  a_priority: [{ priorityClassName: 'ours' }, (o) => [['ours', pod(o).priorityClassName]]],
  alerts: [{ monitoring: { enabled: true, labels: { release: 'theirs' }, interval: '30s' }, autoscaling: { queuedWork: '250m' } },
    (o) => [['theirs', find(o, 'ServiceMonitor').metadata.labels.release], ['theirs', find(o, 'PrometheusRule').metadata.labels.release],
      ['30s', find(o, 'ServiceMonitor').spec.endpoints[0].interval], [parse(read('deploy/prometheus/alerts.yaml')).groups, find(o, 'PrometheusRule').spec.groups]]],
  other_callers: [{ networkPolicy: { clients: [client], scrapers: [], egress: [way] } },
    (o) => [[[{ from: [client], ports: [{ protocol: 'TCP', port: 'grpc' }] }], find(o, 'NetworkPolicy').spec.ingress], [[way], find(o, 'NetworkPolicy').spec.egress]]],
  other_callers_beside_the_edge: [{ networkPolicy: { clients: [client] }, edge: { enabled: true } },
    (o) => [[[client, { podSelector: find(o, 'Deployment', 'attend-edge').spec.selector }], find(o, 'NetworkPolicy').spec.ingress[0].from]]],
  another_dns: [{ networkPolicy: { dns: [dns] }, edge: { enabled: true } },
    (o) => [[[dns], find(o, 'NetworkPolicy', 'attend-edge').spec.egress.slice(1)]]],
  no_dns: [{ networkPolicy: { dns: [] }, edge: { enabled: true } }, (o) => [[1, find(o, 'NetworkPolicy', 'attend-edge').spec.egress.length]]],
  no_policy: [{ networkPolicy: { enabled: false } }, (o) => [[undefined, find(o, 'NetworkPolicy')]]],
  a_place: [{ nodeSelector: { 'kubernetes.io/arch': 'amd64' }, tolerations: [toleration], affinity, topologySpreadConstraints: [{ maxSkew: 2, topologyKey: 'rack', whenUnsatisfiable: 'DoNotSchedule' }], edge: { enabled: true } },
    (o) => [[{ 'kubernetes.io/arch': 'amd64' }, pod(o, 'attend-edge').nodeSelector], [[toleration], pod(o, 'attend-edge').tolerations], [{ 'kubernetes.io/arch': 'amd64' }, pod(o).nodeSelector], [[toleration], pod(o).tolerations], [affinity, pod(o).affinity],
      [[{ maxSkew: 2, topologyKey: 'rack', whenUnsatisfiable: 'DoNotSchedule', matchLabelKeys: ['pod-template-hash'],
        labelSelector: find(o, 'Deployment').spec.selector }], pod(o).topologySpreadConstraints]]],
  no_spread: [{ topologySpreadConstraints: [] }, (o) => [[undefined, pod(o).topologySpreadConstraints]]],
  an_edge: [{ edge: { enabled: true, image: { repository: 'r/edge', tag: '7', pullPolicy: 'Never' }, replicas: 5, tlsSecret: 'ours', serverCa: 'ours-ca', serverName: 'a.example',
    env: { EDGE_WORKERS: '4', EDGE_CALLS: '65535' }, serviceAnnotations: { a: 'b' }, resources: edgeResources } },
  (o) => [['r/edge:7', container(o, 'attend-edge').image], ['Never', container(o, 'attend-edge').imagePullPolicy], [5, find(o, 'Deployment', 'attend-edge').spec.replicas],
    [secret('ours'), pod(o, 'attend-edge').volumes[0].secret], ['ours-ca', pod(o, 'attend-edge').volumes[1].configMap.name],
    [{ a: 'b' }, find(o, 'Service', 'attend-edge').metadata.annotations], [edgeResources, container(o, 'attend-edge').resources],
    [{ EDGE_SERVER: 'attend-servers:8001', EDGE_SERVER_CA: '/etc/attend-server-ca/ca.pem', EDGE_SERVER_NAME: 'a.example', EDGE_MESSAGE_BYTES: '67108864', EDGE_FOLDER: '/run/edge', EDGE_WORKERS: '4', EDGE_CALLS: '65535' },
      Object.fromEntries(container(o, 'attend-edge').env.map(({ name, value }) => [name, value]))]]],
  an_edge_by_digest: [{ edge: { enabled: true, image: { digest } } }, (o) => [[`attend-edge@${digest}`, container(o, 'attend-edge').image]]],
};

// Each: values, and what is said: the value, what was expected and what was found.
const WRONG = {
  an_unknown_value: [{ replica: 3 }, /replica is not allowed/],
  an_unknown_part: [{ resources: { limits: { cpu: 2 } } }, /resources: .*limits is not allowed/],
  words_for_a_number: [{ replicas: 'three' }, /replicas: .*Expected: integer, given: string/],
  no_server: [{ replicas: 0 }, /replicas: .*greater than or equal to 1/],
  a_number_for_a_tag: [{ image: { tag: 1.1 } }, /image\.tag: .*Expected: string, given: number/],
  a_tag_in_the_repository: [{ image: { repository: 'attend:1' } }, /image\.repository: .*match pattern/],
  a_short_digest: [{ image: { digest: 'sha256:12' } }, /image\.digest: .*match pattern/],
  a_policy_of_nobody: [{ image: { pullPolicy: 'Sometimes' } }, /image\.pullPolicy.*(one of|Always)/],
  tag_and_digest: [{ image: { tag: '1', digest } }, /image\.digest: expected no digest beside the tag 1, found sha256:0a0a/],
  two_images_of_the_edge: [{ edge: { image: { tag: '1', digest } } }, /edge\.image\.digest: expected no digest beside the tag 1, found sha256:0a0a/],
  half_a_core: [{ resources: { cpu: 0.5 } }, /resources\.cpu: .*Expected: integer, given: number/],
  a_core_in_parts: [{ resources: { cpu: '1500m' } }, /resources\.cpu: .*Expected: integer, given: string/],
  memory_without_unit: [{ resources: { memory: '2' } }, /resources\.memory: .*match pattern/],
  too_little_memory: [{ resources: { memory: '1Gi' } }, /resources\.memory: expected at least the 2431Mi that the limits in config need, found 1Gi/],
  no_certificate: [{ tls: { secret: '' } }, /tls\.secret: expected the name of a Secret of type kubernetes.io\/tls, or tls.enabled=false, found none/],
  clients_of_plaintext: [{ tls: { enabled: false, clientCa: { secret: 'ca' } } }, /tls\.clientCa\.secret: expected none without tls.enabled, found ca/],
  two_claims: [{ models: { existingClaim: 'a', newClaim: { size: '1Gi' } } }, /models\.newClaim\.size: expected none beside models.existingClaim=a, found 1Gi/],
  models_of_nowhere: [{ models: { required: ['a', 'b'] } }, /models\.required: expected \[none\] without a claim of models, found \[a, b\]/],
  a_size_without_unit: [{ models: { newClaim: { size: '20' } } }, /models\.newClaim\.size: .*match pattern/],
  a_listener: [{ config: { listen: ['0.0.0.0:9'] } }, /config\.listen: expected no such key, which the chart sets .*found \[0\.0\.0\.0:9\]/],
  none_beside_a_model: [{ models: { existingClaim: 'ours', required: ['none', 'a'] } }, /models\.required: expected names of models, or \[none\], found \[none, a\]/],
  polls_of_no_models: [{ config: { models_poll: '5s' } }, /config\.models_poll: expected no such key without a claim of models, found 5s/],
  a_sample_of_no_traces: [{ config: { trace_sample_ratio: 0.5 } }, /config\.trace_sample_ratio: expected no such key without config\.otlp_endpoint, found 0\.5/],
  headers_of_no_traces: [{ traces: { headers: { secret: 'ours' } } }, /traces\.headers\.secret: expected none without config\.otlp_endpoint, found ours/],
  a_collector_without_scheme: [{ config: { otlp_endpoint: 'collector:4318' } }, /config\.otlp_endpoint: expected a URL such as http:\/\/HOST:4318, found collector:4318/],
  a_misspelt_option: [{ config: { max_queue_byte: 1 } }, /config: .*max_queue_byte is not allowed/],
  a_message_beyond_grpc: [{ config: { max_message_bytes: 2 ** 31 } }, /config\.max_message_bytes: .*less than or equal to 2\.?147483647/],
  a_log_of_nobody: [{ config: { log_format: 'xml' } }, /config\.log_format.*(one of|text)/],
  half_a_thread: [{ config: { threads: 0.5 } }, /config\.threads: .*Expected: integer, given: number/],
  a_flag_as_a_key: [{ config: { '--threads': 2 } }, /config: .*--threads/],
  a_size_with_a_unit: [{ config: { max_cache_bytes: '2Gi' } }, /config\.max_cache_bytes: .*[Ee]xpected: integer, given: string/],
  no_limit: [{ config: { max_queue_bytes: null } }, /config: max_queue_bytes is required/],
  a_limit_of_0: [{ config: { max_message_bytes: 0 } }, /config\.max_message_bytes: .*greater than or equal to 1/],
  no_queued_work: [{ autoscaling: { queuedWork: '0.0' } }, /autoscaling\.queuedWork: .*match pattern/],
  a_duration_in_words: [{ config: { drain_delay: '40 seconds' } }, /config\.drain_delay: .*match pattern/],
  a_duration_of_days: [{ config: { grace_period: '24h1s' } }, /config\.grace_period: expected 0, or a time from 1ms to 24h, found 24h1s/],
  too_many_seconds: [{ config: { grace_period: 86401 } }, /config\.grace_period: .*less than or equal to 86/],
  a_short_drain: [{ config: { drain_delay: '33s' } }, /config\.drain_delay: expected more than 1\.1 times config\.max_connection_age, 30s, found 33s/],
  more_than_at_most: [{ autoscaling: { minReplicas: 9 } }, /autoscaling\.minReplicas: expected at most autoscaling\.maxReplicas, 8, found 9/],
  more_than_all: [{ autoscaling: { cpu: 200 } }, /autoscaling\.cpu: .*less than or equal to 100/],
  no_patience: [{ startup: { patience: '0s' } }, /startup\.patience: .*match pattern/],
  rare_scrapes: [{ monitoring: { interval: '5m' } }, /monitoring\.interval: .*match pattern/],
  too_rare_scrapes: [{ monitoring: { interval: '31s' } }, /monitoring\.interval: .*match pattern/],
  callers_from_everywhere: [{ networkPolicy: { clients: [] } }, /networkPolicy\.clients: .*at least 1/],
  a_spread_with_labels: [{ topologySpreadConstraints: [{ maxSkew: 1, topologyKey: 'a', whenUnsatisfiable: 'ScheduleAnyway', labelSelector: {} }] }, /topologySpreadConstraints\.0.*/],
  an_edge_before_plaintext: [{ tls: { enabled: false }, edge: { enabled: true } }, /edge\.enabled: expected false without tls\.enabled, found true/],
  an_edge_without_certificate: [{ tls: { clientCa: { secret: 'ca' } }, edge: { enabled: true } }, /tls\.clientCa\.secret: expected none with edge\.enabled.*found ca/],
  an_edge_without_secret: [{ edge: { tlsSecret: '' } }, /edge\.tlsSecret: .*match pattern/],
  more_calls_than_nginx_takes: [{ edge: { env: { EDGE_CALLS: '65536' } } }, /edge\.env\.EDGE_CALLS: .*match pattern/],
  a_setting_of_the_edge: [{ edge: { env: { EDGE_LISTEN: '1' } } }, /edge\.env: .*EDGE_LISTEN is not allowed/],
};

/** What the rules say of these objects, in a namespace of this name, with the objects that the cluster has for the chart. */
function ruled(objects, namespace, ...more) {
  const { metadata, ...kind } = parseAllDocuments(read('deploy/kubernetes/namespaces.yaml'))[0].toJS();
  const servers = objects.filter((object) => object.metadata.labels['app.kubernetes.io/name'] === 'attend' && object.metadata.name !== 'attend-servers');
  return problems([...servers, { ...kind, metadata: { ...metadata, name: namespace } }, ...more]);
}

function rendered(values, options) {
  const { objects, said } = chart(values, folder, options);
  assert.ok(objects, said[0]);
  return objects;
}

const cases = Object.fromEntries(Object.entries(VALUES).map(([name, [values]]) => [name, rendered(values, { namespace: 'elsewhere' })]));
const byDefault = rendered({}, { namespace: 'elsewhere' });
const dev = rendered('values-dev.yaml', { namespace: 'attend-dev' });
const prod = rendered('values-prod.yaml');
const other = rendered({ edge: { enabled: true }, monitoring: { enabled: true }, autoscaling: { queuedWork: '250m' } }, { release: 'seven', namespace: 'elsewhere' });
const types = mistyped({ ...cases, byDefault, dev, prod, other }, folder, nodeModules);
const priority = parse(read('deploy/kubernetes/overlays/prod/priority_class.yaml'));
// A rule expects queued work among the metrics where the objects themselves have who scrapes it.
const priorities = { a_priority: [{ ...priority, metadata: { name: 'ours' } }] };

for (const [name, objects] of Object.entries(cases)) {
  test(`${name}: the values do what they say, and the objects are valid by schema, type and rule`, async () => {
    for (const [expected, found] of VALUES[name][1](objects)) assert.deepEqual(found, expected);
    assert.deepEqual(await invalid(objects), []);
    assert.deepEqual(types[name], []);
    if (name !== 'no_spread') assert.deepEqual(ruled(objects, 'elsewhere', ...(priorities[name] ?? [])), []);
    assert.equal(refusal(config(objects), folder), '');
  });
}

for (const [name, objects, namespace, more] of [['the defaults', byDefault, 'elsewhere', []], ['values-dev.yaml', dev, 'attend-dev', []], ['values-prod.yaml', prod, 'attend', [priority]]]) {
  test(`${name}: the objects are valid by schema, type and rule, and the server would start`, async () => {
    assert.deepEqual(await invalid(objects), []);
    assert.deepEqual(types[{ attend: 'prod', 'attend-dev': 'dev' }[namespace] ?? 'byDefault'], []);
    assert.deepEqual(ruled(objects, namespace, ...more), []);
    assert.equal(refusal(config(objects), folder), '');
  });
}

test("the servers' policy admits the edge, whoever else may call", () => {
  const all = { ...cases, byDefault, dev, prod, other };
  const edges = Object.entries(all).flatMap(([name, objects]) => objects
    .filter(({ kind, metadata }) => kind === 'Deployment' && metadata.name.endsWith('-edge')).map((edge) => [name, edge, objects]));
  assert.ok(edges.length >= 4);
  for (const [name, edge, objects] of edges) {
    const policy = find(objects, 'NetworkPolicy', edge.metadata.name.replace(/-edge$/, ''));
    const admits = ({ podSelector, ...elsewhere }) => Object.keys(elsewhere).length === 0
      && isSubset(podSelector.matchLabels, edge.spec.template.metadata.labels);
    assert.ok(policy.spec.ingress.some(({ from, ports }) => ports[0].port === 'grpc' && from.some(admits)), name);
  }
});

// What a kind of duration is in the server's schema.
const isDuration = ({ type, maximum }) => JSON.stringify(type) === '["string","number"]' && maximum === 86400;

const isSize = ({ type }) => JSON.stringify(type) === '["integer","string"]';

test("the options of config, and their limits, are those of the server's own schema", () => {
  const { properties: { $schema, ...options } } = JSON.parse(execFileSync(process.env.ATTEND_SERVER, ['--print-config-schema'], { encoding: 'utf8' }));
  const found = JSON.parse(readFileSync(join(CHART, 'values.schema.json'), 'utf8')).properties.config;
  // Helm takes a value that is null away.
  const expected = Object.fromEntries(Object.entries(options).map(([key, { anyOf }]) => {
    const kinds = anyOf.filter(({ type }) => type !== 'null');
    if (found.properties[key]?.description === 'set by the chart') return [key, { description: 'set by the chart' }];
    if (isDuration(kinds[0])) return [key, { $ref: '#/definitions/duration' }];
    // The chart takes bytes alone: it compares and passes on their number.
    if (isSize(kinds[0])) {
      const { pattern, ...number } = kinds[0];
      return [key, { ...number, type: 'integer' }];
    }
    return [key, kinds.length === 1 ? kinds[0] : { anyOf: kinds }];
  }));
  assert.deepEqual(found.properties, expected);
  assert.equal(found.additionalProperties, false);
  for (const [key, { description }] of Object.entries(expected)) {
    if (description) assert.match(chart({ config: { [key]: true } }, folder).said?.at(-1) ?? '', new RegExp(`config\\.${key}: expected no such key, which the chart sets`));
  }
});

test('no duration of config may be longer than the server takes', () => {
  const { config: { properties } } = JSON.parse(readFileSync(join(CHART, 'values.schema.json'), 'utf8')).properties;
  const keys = Object.keys(properties).filter((key) => properties[key].$ref === '#/definitions/duration');
  assert.ok(keys.length >= 10);
  for (const key of keys) {
    const values = (duration) => ({ models: { existingClaim: 'ours' }, config: { [key]: duration } });
    for (const duration of ['25h', '0.0001s']) {
      assert.match(chart(values(duration), folder).said?.at(-1) ?? '', new RegExp(`config\\.${key}: expected 0, or a time from 1ms to 24h, found ${duration}`));
    }
    const drain = key === 'max_connection_age' ? { [key]: '20h', drain_delay: '24h' } : { [key]: '24h' };
    const taken = rendered({ ...values(''), config: drain });
    assert.equal(refusal(config(taken), folder), '');
  }
});

test('each value has a case', () => {
  const covered = Object.values(VALUES).flatMap(([values]) => Object.keys(leaves(values)));
  const all = Object.keys(leaves(parse(readFileSync(join(CHART, 'values.yaml'), 'utf8'))));
  const missing = all.filter((path) => !covered.some((one) => one === path || one.startsWith(`${path}.`) || path.startsWith(`${one.replace(/\.[0-9]+(\..*)?$/, '')}.`)));
  assert.deepEqual(missing, []);
});

for (const [name, [values, text]] of Object.entries(WRONG)) {
  test(`refused: ${name}`, () => {
    const { objects, said } = chart(values, folder);
    assert.equal(objects, undefined);
    assert.match(said.at(-1), text);
    // Versions of helm word it differently.
    const names = Object.keys(leaves(values)).at(-1).split('.').filter((part) => Number.isNaN(Number(part)));
    for (const one of said) assert.ok(names.slice(-2).some((name) => one.includes(name)), one);
  });
}

// ------------------------------------------------------------------------------------------------------- the overlays

// The labels that Helm's objects have, and by which releases of one namespace are told apart.
const HELMS = { 'app.kubernetes.io/instance': 'attend', 'app.kubernetes.io/managed-by': 'Helm', 'helm.sh/chart': `attend-${parse(read('deploy/helm/attend/Chart.yaml')).version}` };
function withoutHelms(value) {
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) return value.map(withoutHelms);
  return Object.fromEntries(Object.entries(value).filter(([key, one]) => HELMS[key] !== one).map(([key, one]) => [key, withoutHelms(one)]));
}

test('each object has the labels of Helm, and each selector the release', () => {
  for (const objects of [byDefault, prod, dev, ...Object.values(cases)]) {
    for (const { kind, metadata, spec } of objects) {
      for (const [label, value] of Object.entries(HELMS)) assert.equal(metadata.labels[label], value, `${kind} ${metadata.name}: ${label}`);
      for (const selector of [spec?.selector?.matchLabels ?? spec?.selector, spec?.podSelector?.matchLabels]) {
        if (selector) assert.equal(selector['app.kubernetes.io/instance'], 'attend', `${kind} ${metadata.name}`);
      }
    }
  }
});

// The name of the ConfigMap has no hash, since Helm deletes the old one while pods still use it; a checksum replaces the pods.
const renamed = (found) => {
  const hash = found.find(({ kind }) => kind === 'ConfigMap').metadata.name;
  const checksum = find(prod, 'Deployment').spec.template.metadata.annotations['checksum/config'];
  assert.match(checksum, /^[0-9a-f]{64}$/);
  return [
    'ConfigMap.metadata.labels.app.kubernetes.io/name: undefined -> "attend"',
    `ConfigMap.metadata.name: "${hash}" -> "attend"`,
    `Deployment attend.spec.template.spec.volumes.config.configMap.name: "${hash}" -> "attend"`,
  ];
};
const compared = (expected, found) => differences(expected, withoutHelms(found))
  .filter((line) => !line.startsWith('Deployment attend.spec.template.metadata.annotations.checksum/config: undefined -> "'));

test('the defaults are those of the base', () => {
  const base = overlay('base').map((object) => ({ ...object, metadata: { ...object.metadata, namespace: 'elsewhere' } }));
  assert.deepEqual(compared(base, byDefault), [
    ...renamed(base),
    'Deployment attend.spec.template.spec.containers.attend.image: "attend" -> "attend:0.2.0"',
    // Without a metric that the cluster serves, the autoscaler would never scale down.
    'HorizontalPodAutoscaler attend.spec.metrics.Pods.pods.metric.name: "attend_queued_work_seconds" -> undefined',
    'HorizontalPodAutoscaler attend.spec.metrics.Pods.pods.target.averageValue: "250m" -> undefined',
    'HorizontalPodAutoscaler attend.spec.metrics.Pods.pods.target.type: "AverageValue" -> undefined',
    'HorizontalPodAutoscaler attend.spec.metrics.Pods.type: "Pods" -> undefined',
  ].sort());
});

test('values-dev.yaml is the overlay dev', () => {
  const expected = overlay('overlays/dev');
  assert.deepEqual(compared(expected, dev), ['ConfigMap.data.attend.json.log_format: undefined -> "text"', ...renamed(expected)].sort());
});

const labelled = (what) => ['part-of: undefined -> "attend"', 'version: undefined -> "0.2.0"'].map((label) => `${what}.metadata.labels.app.kubernetes.io/${label}`);

test('values-prod.yaml is the overlay prod, whose PriorityClass belongs to the cluster', () => {
  const expected = overlay('overlays/prod');
  assert.deepEqual(compared(expected.filter(({ kind }) => kind !== 'PriorityClass'), prod), [
    ...renamed(expected), ...labelled('PrometheusRule attend'), ...labelled('ServiceMonitor attend'),
    'ServiceMonitor attend.spec.jobLabel: undefined -> "app.kubernetes.io/name"',
  ].sort());
});

test('edge.enabled adds the overlay edge', () => {
  const of_prod = { priorityClassName: 'attend', config: { max_message_bytes: config(prod).max_message_bytes } };
  const with_edge = rendered({ ...of_prod, edge: { enabled: true } });
  const without = rendered(of_prod);
  const added = with_edge.filter(({ kind, metadata }) => !find(without, kind, metadata.name));
  assert.deepEqual(compared(overlay('overlays/edge'), added), []);
  assert.deepEqual(with_edge.filter((object) => !added.includes(object)), without);
});

// --------------------------------------------------------------------------------------------------------------- more

test('a release of another name has its own names, and the same job in its alerts', async () => {
  for (const { kind, metadata } of other) assert.match(metadata.name, /^seven-attend(-edge|-servers)?$/, kind);
  assert.deepEqual(await invalid(other), []);
  assert.deepEqual(types.other, []);
  assert.deepEqual(ruled(other.filter(({ metadata }) => !metadata.name.endsWith('servers')), 'elsewhere'), []);
});

for (const release of ['7', 'my.rel', '7attend', 'attend.2']) {
  test(`a release may not be called ${release}, since no Service may`, () => {
    const { said } = chart({}, folder, { release });
    assert.match(said.at(-1), /the name of the release: expected a lowercase letter, then .* as in the name of a Service, found /);
    for (const one of said) assert.ok(one.includes(`found ${release}`), one);
  });
}

test('the chart needs as much memory as the rules', () => {
  const enough = rendered({ resources: { memory: '2431Mi' } }, { namespace: 'elsewhere' });
  assert.deepEqual(ruled(enough, 'elsewhere'), []);
  container(enough).resources = JSON.parse(JSON.stringify(container(enough).resources).replaceAll('2431Mi', '2430Mi'));
  assert.match(ruled(enough, 'elsewhere').join(), /what attend.json allows needs/);
  assert.match(chart({ resources: { memory: '2430Mi' } }, folder).said[0], /resources\.memory: expected at least the 2431Mi/);
});

test('NOTES.txt names what the namespace has to have, and how to call', () => {
  assert.match(notes('values-prod.yaml'), /Secret attend-tls .*attend\.attend\.svc\.\n.*Secret attend-tokens with tokens\.json\.\n.*claim attend-models /);
  assert.match(notes('values-prod.yaml'), /--server=dns:\/\/\/attend\.attend\.svc:8001 --tls --ca=ca\.pem --token-file=token --model=NAME/);
  assert.match(notes('values-dev.yaml'), /--server=dns:\/\/\/attend\.attend\.svc:8001 --model=demo/);
  assert.doesNotMatch(notes('values-dev.yaml'), /Secret/);
});

test('NOTES.txt warns of an edge without tokens', () => {
  const place = join(folder, 'notes.json');
  const said = (values) => {
    writeFileSync(place, JSON.stringify(values));
    return notes(place);
  };
  const warning = /WARNING: everybody who reaches this address may call .*tokens\.secret is empty/;
  assert.match(said({ edge: { enabled: true } }), warning);
  assert.doesNotMatch(said({ edge: { enabled: true }, tokens: { secret: 'ours' } }), warning);
  assert.doesNotMatch(said({}), warning);
});

test('the package of a release has no links, and renders the same', () => {
  const place = join(folder, 'package');
  mkdirSync(place);
  execFileSync(join(root, 'deploy/package_chart.sh'), [place], { env: { ...process.env, SOURCE_DATE_EPOCH: '1' } });
  const [file] = readdirSync(place);
  const { version } = parse(read('deploy/helm/attend/Chart.yaml'));
  assert.equal(file, `attend-${version}.tgz`);
  const names = execFileSync('tar', ['-tvzf', join(place, file)], { encoding: 'utf8' }).trim().split('\n');
  for (const line of names) assert.match(line, /^-rw-r--r-- .* attend\//);
  execFileSync('tar', ['-xzf', join(place, file), '-C', place]);
  const values = { monitoring: { enabled: true }, edge: { enabled: true } };
  assert.deepEqual(rendered(values, { of: join(place, 'attend') }), rendered(values));
});
