// sbom.sh and release_sbom.py on this machine: valid CycloneDX, and what dpkg and npm know is in it.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
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

test('that of a release names what its packages need', async () => {
  const work = mkdtempSync(join(tmpdir(), 'attend-sbom-'));
  try {
    mkdirSync(join(work, 'deb/DEBIAN'), { recursive: true });
    const control = 'Package: thing\nVersion: 1\nArchitecture: all\nMaintainer: nobody\nDescription: none\nDepends: libc6 (>= 2), zlib1g\n';
    writeFileSync(join(work, 'deb/DEBIAN/control'), control);
    execFileSync('dpkg-deb', ['--build', join(work, 'deb'), join(work, 'thing.deb')]);
    const wheel = join(work, 'thing.whl');
    const metadata = 'Name: thing\nRequires-Dist: numpy>=1.21\nRequires-Dist: ml_dtypes>=0.2; extra == "bf16"\n';
    const zip = 'import sys, zipfile; zipfile.ZipFile(sys.argv[1], "w").writestr("thing-1.dist-info/METADATA", sys.argv[2])';
    execFileSync('python3', ['-c', zip, wheel, metadata]);
    const lock = join(process.env.ATTEND_SOURCE, 'client/node/package-lock.json');
    const bill = execFileSync('python3', [join(process.env.ATTEND_SOURCE, 'deploy/release_sbom.py'), '1.2.3',
      ...['--deb', join(work, 'thing.deb'), '--wheel', wheel, '--lock', lock, '--compiled-in', 'libfoo++-dev=1:2.0+dfsg-3']],
    { encoding: 'utf8' });
    assert.equal(await new Validation.JsonStrictValidator(Spec.Version.v1dot6).validate(bill), null);
    const { components } = JSON.parse(bill);
    const found = (name) => components.find((component) => component.name === name);
    assert.match(found('libfoo++-dev').purl, /libfoo%2B%2B-dev@1%3A2.0%2Bdfsg-3\?arch=/);
    assert.equal(found('zlib1g').version, execFileSync('dpkg-query', ['-W', '-f', '${Version}', 'zlib1g'], { encoding: 'utf8' }));
    assert.equal(found('ml_dtypes').purl, 'pkg:pypi/ml-dtypes');
    const { packages } = JSON.parse(readFileSync(lock));
    assert.equal(found('@grpc/grpc-js').version, packages['node_modules/@grpc/grpc-js'].version);
    assert.equal(found('typescript'), undefined, 'only the build needs it');
  } finally {
    rmSync(work, { recursive: true });
  }
});
