// Whether the server would start with an attend.json.
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** What the server says of this configuration, nothing if it would start; what is mounted in a pod stands in for by what tests have. */
export function refusal(config, folder) {
  const data = join(process.env.ATTEND_SOURCE, 'tests/data/tls');
  const mounted = {
    '/etc/attend-tls/tls.crt': join(data, 'server.pem'),
    '/etc/attend-tls/tls.key': join(data, 'server.key'),
    '/etc/attend-client-ca/': join(data, 'ca.pem'),
    '/etc/attend-tokens/': join(folder, 'tokens.json'),
    '/etc/attend-traces/': join(folder, 'headers'),
    '/models': folder,
  };
  writeFileSync(mounted['/etc/attend-tokens/'], '{"tokens": []}');
  writeFileSync(mounted['/etc/attend-traces/'], 'authorization: Bearer x\n');
  const here = Object.fromEntries(Object.entries(config).map(([key, value]) => [key, mounted[value] ?? mounted[String(value).replace(/[^/]*$/, '')] ?? value]));
  const file = join(folder, 'attend.json');
  writeFileSync(file, JSON.stringify(here));
  const { stderr, status } = spawnSync(process.env.ATTEND_SERVER, [`--config=${file}`, '--check-config'], { encoding: 'utf8' });
  return status === 0 ? '' : stderr;
}
