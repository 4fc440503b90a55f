// What neither a schema nor a type sees: whether the objects of one overlay fit together, and fit the server.
import { quantity, seconds } from './quantities.mjs';

export const isSubset = (few, many) => Object.entries(few ?? {}).every(([key, value]) => many?.[key] === value);
const ofKind = (objects, kind) => objects.filter((object) => object.kind === kind);
const portOf = (address) => Number(address.slice(address.lastIndexOf(':') + 1));
const healthListen = ({ env }) => env?.find(({ name }) => name === 'ATTEND_HEALTH_LISTEN')?.value;
const isLoopback = (address) => /^(127\.|localhost:|\[::1\]|unix:)/.test(address);

/** The one Deployment, its container, its configuration, and all objects. */
function cast(objects) {
  const deployment = ofKind(objects, 'Deployment')[0];
  const pod = deployment.spec.template;
  const container = pod.spec.containers[0];
  const named = pod.spec.volumes.find((volume) => volume.configMap)?.configMap.name;
  const map = ofKind(objects, 'ConfigMap').find((object) => object.metadata.name === named);
  return { objects, deployment, pod, container, map, config: map ? JSON.parse(map.data['attend.json']) : {} };
}

function* selectors({ objects, deployment, pod }) {
  const labels = pod.metadata.labels;
  const claims = [
    ['Deployment', deployment.spec.selector.matchLabels],
    ...ofKind(objects, 'Service').map((service) => ['Service', service.spec.selector]),
    ...ofKind(objects, 'PodDisruptionBudget').map((budget) => ['PodDisruptionBudget', budget.spec.selector.matchLabels]),
    ...ofKind(objects, 'NetworkPolicy').map((policy) => ['NetworkPolicy', policy.spec.podSelector.matchLabels]),
    ...pod.spec.topologySpreadConstraints.map((spread) => ['topology spread', spread.labelSelector.matchLabels]),
  ];
  for (const [who, selector] of claims) {
    if (!selector || Object.keys(selector).length === 0) yield `${who}: selects everything`;
    if (!isSubset(selector, labels)) yield `${who}: selects ${JSON.stringify(selector)}, pods have ${JSON.stringify(labels)}`;
  }
  for (const monitor of ofKind(objects, 'ServiceMonitor')) {
    const service = ofKind(objects, 'Service').find(({ metadata }) => isSubset(monitor.spec.selector.matchLabels, metadata.labels));
    if (!service) yield 'ServiceMonitor: selects no Service';
    for (const { port } of monitor.spec.endpoints) {
      if (!service?.spec.ports.some(({ name }) => name === port)) yield `ServiceMonitor: the Service has no port ${port}`;
    }
  }
}

/** Alerts name the job, which the ServiceMonitor makes of the Service: of its name, unless it says of which label. */
function* alerts({ objects }) {
  for (const { spec } of ofKind(objects, 'PrometheusRule')) {
    const wanted = spec.groups.flatMap(({ rules }) => rules.flatMap(({ expr }) => [...String(expr).matchAll(/job="([^"]*)"/g)].map(([, job]) => job)));
    const monitor = ofKind(objects, 'ServiceMonitor')[0];
    const service = ofKind(objects, 'Service')[0];
    const job = monitor?.spec.jobLabel ? service?.metadata.labels[monitor.spec.jobLabel] : service?.metadata.name;
    if (!monitor) yield 'PrometheusRule: nobody scrapes what it is about';
    for (const name of new Set(wanted)) if (name !== job) yield `PrometheusRule: about the job ${name}, the ServiceMonitor's is ${job}`;
  }
}

function* ports({ objects, container, config }) {
  const byName = new Map(container.ports.map((port) => [port.name, port.containerPort]));
  for (const service of ofKind(objects, 'Service')) {
    for (const port of service.spec.ports) {
      if (!byName.has(port.targetPort)) yield `Service: no container port ${port.targetPort}`;
      // A headless name leads to the pods' own ports.
      else if (byName.get(port.targetPort) !== port.port) yield `Service: port ${port.port} is not the pods' ${port.name}`;
      const spoken = port.name !== 'grpc' ? 'http' : config.tls_certificate ? 'https' : 'kubernetes.io/h2c';
      if (port.appProtocol !== spoken) yield `Service: port ${port.name} speaks ${spoken}, not ${port.appProtocol}`;
    }
  }
  for (const policy of ofKind(objects, 'NetworkPolicy')) {
    for (const { port } of policy.spec.ingress.flatMap((rule) => rule.ports)) {
      if (!byName.has(port)) yield `NetworkPolicy: no container port ${port}`;
    }
  }
  for (const { spec } of ofKind(objects, 'NetworkPolicy')) {
    // The API server drops it, and whoever compares finds a difference for ever.
    for (const way of ['ingress', 'egress']) if (spec[way]?.length === 0) yield `NetworkPolicy: ${way}: expected no list or one that is not empty`;
  }
  for (const probe of ['startupProbe', 'readinessProbe', 'livenessProbe']) {
    if (container[probe]?.grpc?.port !== byName.get('health')) yield `${probe}: expected gRPC on the port health`;
  }
  for (const [name, address] of [['grpc', config.listen?.[0]], ['metrics', config.metrics_listen], ['health', healthListen(container)]]) {
    if (!address || portOf(address) !== byName.get(name)) yield `attend.json: ${name} is at ${address}, the container says ${byName.get(name)}`;
  }
  // The image's own variable precedes the file.
  if (config.health_listen) yield `attend.json: health_listen: expected none, since the variable ATTEND_HEALTH_LISTEN precedes it, found ${config.health_listen}`;
}

function* resources({ container, config }) {
  const { requests, limits } = container.resources;
  for (const name of ['cpu', 'memory']) {
    if (!requests?.[name] || !limits?.[name]) yield `resources: ${name} needs a request and a limit`;
    else if (quantity(requests[name]) > quantity(limits[name])) yield `resources: ${name} requests more than its limit`;
  }
  // The server computes on as many threads as its limit has cores.
  if (quantity(requests?.cpu ?? 0) < quantity(limits?.cpu ?? 0)) yield 'resources: cpu: the thread budget is the limit, so the request must be as large';
  if (quantity(limits?.cpu ?? 0) % 1 !== 0) yield `resources: cpu: ${limits.cpu} throttles a thread: expected whole cores`;
  // The table of deploy/README.md. Models need the rest.
  const size = (key) => quantity(String(config[key]).replace(/B$/, '')); // a B may follow the server's units
  const waiting = Math.max(1.4 * size('max_queue_bytes'), 2 ** 16 * (config.max_queue_requests ?? 8192));
  const actions = size('max_queue_bytes') / 4;
  const caches = 1.125 * size('max_cache_bytes') + Math.max(size('max_cache_bytes') / 4, 2 ** 28);
  const needed = waiting + actions + size('max_reply_bytes') + caches + 8 * size('max_message_bytes') + 81e3 * config.max_connections + 2 ** 29;
  if (!(quantity(limits?.memory ?? 0) >= needed)) yield `resources: memory: what attend.json allows needs ${needed} bytes, found ${limits?.memory}`;
}

function* scaling({ objects, deployment }) {
  for (const { spec } of ofKind(objects, 'HorizontalPodAutoscaler')) {
    if (!(spec.minReplicas <= spec.maxReplicas)) yield `HorizontalPodAutoscaler: minReplicas ${spec.minReplicas} > maxReplicas ${spec.maxReplicas}`;
    if (spec.scaleTargetRef.name !== deployment.metadata.name) yield 'HorizontalPodAutoscaler: scales no Deployment of ours';
    if (deployment.spec.replicas !== undefined) yield 'Deployment: replicas would undo the autoscaler at every apply';
    const metrics = spec.metrics.map((metric) => metric.pods?.metric.name ?? metric.resource?.name);
    // Who scrapes the pods can serve the metric, too.
    const isScraped = ofKind(objects, 'ServiceMonitor').length > 0;
    if (isScraped !== metrics.includes('attend_queued_work_seconds')) {
      yield `HorizontalPodAutoscaler: queued work is ${isScraped ? 'not among the metrics' : "a metric that nobody serves, without which it never scales down"}`;
    }
    if (!metrics.includes('cpu')) yield 'HorizontalPodAutoscaler: no fallback to cpu';
  }
  for (const { spec } of ofKind(objects, 'PodDisruptionBudget')) {
    if (('minAvailable' in spec) === ('maxUnavailable' in spec)) yield 'PodDisruptionBudget: expected one of minAvailable and maxUnavailable';
  }
}

/** The restricted profile of the Pod Security Standards, and a root file system that cannot be written. */
export function* security({ objects, pod, container }) {
  const context = pod.spec.securityContext ?? {};
  const own = container.securityContext ?? {};
  if (!context.runAsNonRoot) yield 'security: runAsNonRoot is not set';
  if (!(context.runAsUser > 0)) yield 'security: runAsUser is not set';
  if (context.seccompProfile?.type !== 'RuntimeDefault') yield 'security: seccompProfile is not RuntimeDefault';
  if (own.allowPrivilegeEscalation !== false) yield 'security: allowPrivilegeEscalation is not false';
  if (!own.capabilities?.drop?.includes('ALL') || own.capabilities?.add) yield 'security: capabilities are not all dropped';
  if (own.readOnlyRootFilesystem !== true) yield 'security: the root file system can be written';
  if (own.privileged || pod.spec.hostNetwork || pod.spec.hostPID || pod.spec.hostIPC) yield "security: the host's own namespaces";
  if (pod.spec.automountServiceAccountToken !== false) yield "security: a token for the cluster's API is mounted";
  const allowed = ['configMap', 'secret', 'emptyDir', 'persistentVolumeClaim', 'projected', 'downwardAPI', 'csi', 'ephemeral'];
  for (const { name, ...kind } of pod.spec.volumes) {
    if (!allowed.includes(Object.keys(kind)[0])) yield `security: volume ${name} is of a kind the profile refuses`;
  }
  for (const { metadata } of ofKind(objects, 'Namespace')) {
    for (const mode of ['enforce', 'warn', 'audit']) {
      if (metadata.labels?.[`pod-security.kubernetes.io/${mode}`] !== 'restricted') yield `security: namespace ${metadata.name} does not ${mode} restricted`;
    }
  }
}

function* files({ pod, container, map, config }) {
  if (!map) yield 'volumes: the ConfigMap does not exist';
  const declared = pod.spec.volumes.map(({ name }) => name);
  const mounted = container.volumeMounts.map(({ name }) => name);
  for (const name of mounted) if (!declared.includes(name)) yield `volumes: ${name} is mounted, not declared`;
  for (const name of declared) if (!mounted.includes(name)) yield `volumes: ${name} is declared, not mounted`;
  for (const key of ['tls_certificate', 'tls_key', 'tls_client_ca', 'tokens', 'otlp_headers', 'models']) {
    const path = config[key];
    const isThere = container.volumeMounts.some(({ mountPath }) => path === mountPath || path?.startsWith(`${mountPath}/`));
    if (path && !isThere) yield `attend.json: ${key}: nothing is mounted at ${path}`;
  }
}

function* listeners({ config, container, objects }) {
  if (!isLoopback(config.admin_listen ?? '')) yield 'attend.json: admin_listen leaves the pod';
  const isOpen = config.listen?.some((address) => !isLoopback(address));
  if (isOpen && !config.tls_certificate && !config.insecure) yield 'attend.json: plaintext without insecure';
  if (config.tls_certificate && config.insecure) yield 'attend.json: insecure beside TLS';
  if (!isLoopback(config.metrics_listen ?? '') && !config.metrics_insecure && !config.insecure) yield 'attend.json: metrics in plaintext without metrics_insecure';
  const isProd = objects.some(({ kind, metadata }) => kind === 'Namespace' && metadata.name === 'attend');
  if (isProd && (config.insecure || !config.tls_certificate || !config.tokens)) yield 'attend.json: production needs TLS and tokens';
  if (container.livenessProbe?.grpc?.service) yield 'livenessProbe: a model that is replaced must not restart the pod';
}

function* rollout({ objects, deployment, pod, container, config }) {
  const isShared = ofKind(objects, 'HorizontalPodAutoscaler').some(({ spec }) => spec.maxReplicas > 1);
  if (isShared && !(deployment.spec.minReadySeconds >= 30)) yield 'Deployment: minReadySeconds: clients need 30 s to find the new pods';
  const { periodSeconds, failureThreshold } = container.startupProbe;
  const starting = periodSeconds * failureThreshold + (deployment.spec.minReadySeconds ?? 0);
  if (!((deployment.spec.progressDeadlineSeconds ?? 600) > starting)) yield `Deployment: progressDeadlineSeconds: a pod may take ${starting} s`;
  const sleep = container.lifecycle?.preStop?.sleep?.seconds ?? 0;
  if (!(sleep > 0)) yield 'preStop: balancers need time to forget the pod';
  const age = seconds(config.max_connection_age);
  if (!(age === 0 || seconds(config.drain_delay) > 1.1 * age)) {
    yield `drain_delay: expected more than max_connection_age (${config.max_connection_age}, which gRPC varies by a tenth), found ${config.drain_delay}`;
  }
  if (!(pod.spec.terminationGracePeriodSeconds > sleep + seconds(config.drain_delay) + seconds(config.grace_period))) {
    yield `terminationGracePeriodSeconds: expected more than preStop (${sleep} s), drain_delay (${config.drain_delay}) and grace_period (${config.grace_period})`;
  }
}

function* names({ objects }) {
  const namespace = ofKind(objects, 'Namespace')[0]?.metadata.name;
  const seen = new Set();
  for (const { kind, metadata } of objects) {
    if (!['Namespace', 'PriorityClass'].includes(kind) && metadata.namespace !== namespace) yield `${kind} ${metadata.name}: in namespace ${metadata.namespace}, not ${namespace}`;
    if (seen.has(`${kind}/${metadata.name}`)) yield `${kind} ${metadata.name}: twice`;
    seen.add(`${kind}/${metadata.name}`);
  }
}

/** Tools group by them. Pods are asked: what an overlay adds has none. */
function* labels({ pod }) {
  for (const label of ['name', 'part-of', 'version']) {
    if (!pod.metadata.labels?.[`app.kubernetes.io/${label}`]) yield `Deployment: pods have no label app.kubernetes.io/${label}`;
  }
}

function* priority({ objects, pod }) {
  const name = pod.spec.priorityClassName;
  const classes = ofKind(objects, 'PriorityClass').map(({ metadata }) => metadata.name);
  if (name && !classes.includes(name)) yield `Deployment: no PriorityClass ${name}`;
  if (!name && classes.length > 0) yield `Deployment: pods are of no PriorityClass, there is ${classes}`;
}

/** What is wrong with the objects of one overlay, in words; empty when nothing is. */
export function problems(objects) {
  const all = cast(objects);
  return [selectors, alerts, ports, resources, scaling, security, files, listeners, rollout, names, labels, priority].flatMap((rule) => [...rule(all)]);
}
