// sbom.sh on this machine: valid CycloneDX, and what dpkg knows is in it.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { Spec, Validation } from '@cyclonedx/cyclonedx-library';

const script = join(process.env.ATTEND_SOURCE, 'deploy/sbom.sh');
const bill = () => execFileSync(script, ['attend', '1.2.3', 'libfoo++-dev=1:2.0+dfsg~rc1-3'], { encoding: 'utf8' });

test('the bill of materials is valid CycloneDX', async () => {
  const validator = new Validation.JsonStrictValidator(Spec.Version.v1dot6);
  assert.equal(await validator.validate(bill()), null);
  assert.notEqual(await validator.validate(bill().replace('"library"', '"thing"')), null);
});

test('it names what is compiled in and what is installed', () => {
  const { components, metadata } = JSON.parse(bill());
  assert.equal(metadata.component.version, '1.2.3');
  assert.match(components[0].purl, /^pkg:deb\/debian\/libfoo%2B%2B-dev@1%3A2.0%2Bdfsg~rc1-3\?arch=/);
  const installed = execFileSync('dpkg-query', ['-W', '-f', '${Version}', 'libc6'], { encoding: 'utf8' });
  assert.equal(components.find(({ name }) => name === 'libc6').version, installed);
});
