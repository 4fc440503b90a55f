// docker-compose.yaml: docker-compose's own reading of it, and what must hold of every service.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { after, test } from 'node:test';
import { parse, stringify } from 'yaml';

const path = join(process.env.ATTEND_SOURCE, 'deploy/docker-compose.yaml');
const folder = mkdtempSync(join(tmpdir(), 'attend-compose-'));
after(() => rmSync(folder, { recursive: true }));

// docker-compose 1, which Debian 12 has, does not know that a service restarts with one that it depends on.
const version = spawnSync(process.env.COMPOSE, ['version', '--short'], { encoding: 'utf8' }).stdout;
function known(file) {
  if (!version.startsWith('1.')) return file;
  const older = join(folder, basename(file));
  writeFileSync(older, readFileSync(file, 'utf8').replace(', restart: true', ''));
  return older;
}

/** What docker-compose says against these files together; empty when nothing. */
function refused(files, env = {}) {
  const named = files.flatMap((file, i) => ['-f', i === 0 ? file : known(file)]);
  const { stderr, status } = spawnSync(process.env.COMPOSE, [...named, '--profile', 'load', 'config', '-q'],
    { encoding: 'utf8', env: { ...process.env, ...env } });
  return status === 0 ? '' : stderr;
}

const scraping = parse(readFileSync(join(dirname(path), 'prometheus/prometheus.yml'), 'utf8')).scrape_configs;
const scraped = scraping.flatMap((job) => job.static_configs.flatMap(({ targets }) => targets));

function* problems({ services, networks, volumes }) {
  for (const [name, service] of Object.entries(services)) {
    if (!service.cap_drop?.includes('ALL')) yield `${name}: keeps capabilities`;
    if (!service.security_opt?.includes('no-new-privileges:true')) yield `${name}: may gain privileges`;
    if (!service.read_only) yield `${name}: the root file system can be written`;
    if (service.privileged || service.network_mode) yield `${name}: the host's own namespaces`;
    if (!service.build && !/^attend$|:v?\d+\.\d+\.\d+$/.test(service.image)) yield `${name}: an image without a version`;
    for (const port of service.ports ?? []) if (!port.startsWith('127.0.0.1:')) yield `${name}: publishes ${port} beyond loopback`;
    for (const network of service.networks) if (!(network in networks)) yield `${name}: no network ${network}`;
    for (const volume of service.volumes ?? []) {
      const [source, , mode] = volume.split(':');
      if (!source.startsWith('.')) {
        if (!(source in volumes)) yield `${name}: no volume ${source}`;
      } else {
        if (!existsSync(resolve(dirname(path), source))) yield `${name}: ${source} does not exist`;
        if (mode !== 'ro') yield `${name}: ${source} can be written`;
      }
    }
  }
  for (const name of ['attend', 'load']) {
    const service = services[name];
    if (service.user !== '65532:65532') yield `${name}: runs as ${service.user}`;
    if (!service.cpus || !service.mem_limit) yield `${name}: no limits`;
  }
  for (const target of scraped) {
    const [host, port] = target.split(':');
    const listens = services[host]?.command.includes(`--metrics-listen=0.0.0.0:${port}`);
    const [own, theirs] = [services.prometheus.networks, services[host]?.networks ?? []];
    if (!listens || !own.some((network) => theirs.includes(network))) yield `prometheus: nobody has metrics at ${target}`;
  }
  if (services.load.profiles?.[0] !== 'load') yield 'load: starts without being asked for';
  if (parseInt(services.attend.stop_grace_period, 10) <= 30) yield 'attend: killed before its grace period ends';
  const isOpen = services.attend.command.some((flag) => flag.startsWith('--listen=0.0.0.0'));
  if (isOpen && !services.attend.command.includes('--insecure')) yield 'attend: plaintext without --insecure';
}

const compose = parse(readFileSync(path, 'utf8'));

test('docker-compose accepts the file, and it keeps our rules', () => {
  assert.equal(refused([path]), '');
  assert.deepEqual([...problems(compose)], []);
});

test('a server may load models for ten minutes, as in the image, Kubernetes and systemd', () => {
  const read = (file) => readFileSync(join(process.env.ATTEND_SOURCE, file), 'utf8');
  const { periodSeconds, failureThreshold } = parse(read('deploy/kubernetes/base/deployment.yaml')).spec.template.spec.containers[0].startupProbe;
  assert.equal(periodSeconds * failureThreshold, 600);
  assert.match(read('deploy/debian/attend-server.service'), /^TimeoutStartSec=10min$/m);
  assert.match(read('Dockerfile'), /^HEALTHCHECK .*--start-period=10m /m);
  assert.equal(compose.services.attend.healthcheck.start_period, '10m');
});

test('docker-compose refuses an unknown key', () => {
  const broken = structuredClone(compose);
  broken.services.attend.healthchek = {};
  const file = join(folder, 'broken.yaml');
  writeFileSync(file, stringify(broken));
  assert.match(refused([file]), /healthchek/);
});

const edgePath = join(dirname(path), 'docker-compose.edge.yaml');
const { edge } = parse(readFileSync(edgePath, 'utf8')).services;

test('the edge goes with it, keeps our rules, and asks for a certificate', () => {
  assert.equal(refused([path, edgePath], { ATTEND_EDGE_TLS: folder }), '');
  assert.match(refused([path, edgePath], { ATTEND_EDGE_TLS: '' }), /a folder with tls.crt and tls.key/);
  // Its one mounted folder is the operator's.
  const inside = { ...edge, volumes: [`./edge:${edge.volumes[0].split(':').slice(-2).join(':')}`] };
  assert.deepEqual([...problems({ ...compose, services: { ...compose.services, edge: inside } })], []);
  assert.match(edge.volumes[0], /:\/etc\/attend-edge-tls:ro$/);
  assert.equal(edge.user, '65532:65532');
  // nginx looks up the server's address when it starts.
  assert.deepEqual(edge.depends_on.attend, { condition: 'service_healthy', restart: true });
  assert.ok(edge.cpus && edge.mem_limit);
  assert.ok(existsSync(resolve(dirname(path), edge.build, 'Dockerfile')));
  const [host, port] = edge.environment.EDGE_SERVER.split(':');
  assert.ok(compose.services[host].command.includes(`--listen=0.0.0.0:${port}`));
  assert.ok(compose.services[host].command.includes(`--max-message-bytes=${edge.environment.EDGE_MESSAGE_BYTES}`));
});

const BROKEN = [
  [(s) => { s.prometheus.ports = ['9090:9090']; }, /prometheus: publishes/],
  [(s) => { delete s.attend.cap_drop; }, /attend: keeps capabilities/],
  [(s) => { s.attend.read_only = false; }, /attend: the root file system/],
  [(s) => { delete s.grafana.read_only; }, /grafana: the root file system/],
  [(s) => { s.grafana.image = 'grafana/grafana:latest'; }, /grafana: an image without a version/],
  [(s) => { s.grafana.volumes.push('./nothing:/x:ro'); }, /nothing does not exist/],
  [(s) => { s.attend.stop_grace_period = '20s'; }, /killed before/],
  [(s) => { s.attend.command = ['--listen=0.0.0.0:8001']; }, /plaintext without/],
  [(s) => { s.attend.command = ['--insecure']; }, /nobody has metrics at attend:8002/],
];

for (const [breakIt, text] of BROKEN) {
  test(`the rules find: ${text.source}`, () => {
    const broken = structuredClone(compose);
    breakIt(broken.services);
    assert.match([...problems(broken)].join('\n'), text);
  });
}

test('Grafana is given our data source and the folder our dashboard is in', () => {
  const read = (file) => parse(readFileSync(join(dirname(path), 'grafana/provisioning', file), 'utf8'));
  const [source] = read('datasources/prometheus.yaml').datasources;
  const port = compose.services.prometheus.ports[0].split(':').at(-1);
  assert.equal(source.url, `http://prometheus:${port}`);
  const [provider] = read('dashboards/attend.yaml').providers;
  const mounted = compose.services.grafana.volumes.map((volume) => volume.split(':')[1]);
  assert.ok(mounted.some((target) => dirname(target) === provider.options.path));
});

test('every panel of the dashboard has a place, a name and a source of its own', () => {
  const { panels, templating } = JSON.parse(readFileSync(join(dirname(path), 'grafana/attend.json'), 'utf8'));
  const source = templating.list.find(({ type }) => type === 'datasource');
  assert.equal(source.query, 'prometheus');
  assert.equal(new Set(panels.map(({ id }) => id)).size, panels.length);
  const cells = new Map();
  for (const { title, type, gridPos, targets } of panels) {
    assert.ok(title);
    assert.ok(gridPos.x + gridPos.w <= 24, `${title} leaves the grid`);
    for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
      for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
        assert.ok(!cells.has(`${x},${y}`), `${title} lies on ${cells.get(`${x},${y}`)}`);
        cells.set(`${x},${y}`, title);
      }
    }
    if (type === 'row') continue;
    for (const { datasource } of targets) assert.equal(datasource.uid, `\${${source.name}}`, title);
  }
});
