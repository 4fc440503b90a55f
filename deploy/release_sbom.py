#!/usr/bin/env python3
"""The bill of materials of a release on stdout, CycloneDX 1.6 in JSON: what its parts need or contain.

release_sbom.py VERSION [--deb FILE]... [--wheel FILE]... [--lock package-lock.json]... [--compiled-in NAME=VERSION[=PURL]]...

--deb: a Debian package; what it depends on has the version that this machine has, with which it was built. --wheel: a Python
package, which names the lowest versions. --lock: the lock file of the npm package; what only its build needs is left out.
--compiled-in: a Debian package, unless PURL says otherwise.
"""

import argparse
import json
import re
import subprocess
import zipfile
from urllib.parse import quote


def output_of(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def component(name, version, purl, description, **more):
    return {"type": "library", "bom-ref": purl, "name": name, **({"version": version} if version else {}), "purl": purl,
            "description": description, **more}


def deb_purl(name, version):
    with open("/etc/os-release", encoding="utf-8") as file:
        release = dict(re.findall(r'^(\w+)="?(.*?)"?$', file.read(), re.MULTILINE))
    arch = output_of("dpkg", "--print-architecture").strip()
    distro = f"&distro={release['VERSION_CODENAME']}" if "VERSION_CODENAME" in release else ""
    return f"pkg:deb/{release['ID']}/{quote(name)}@{quote(version)}?arch={arch}{distro}"


def of_deb(path):
    package = output_of("dpkg-deb", "--field", path, "Package").strip()
    for dependency in output_of("dpkg-deb", "--field", path, "Depends").split(","):
        name = re.match(r"\s*([a-z0-9.+-]+)", dependency)[1]
        version = output_of("dpkg-query", "--show", "--showformat", "${Version}\n", name).splitlines()[0]
        purl = deb_purl(name, version)
        yield component(name, version, purl, f"the Debian package {package} needs it")


def of_wheel(path):
    with zipfile.ZipFile(path) as wheel:
        metadata = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        text = wheel.read(metadata).decode()
    for name, rest in re.findall(r"^Requires-Dist: ([A-Za-z0-9._-]+) *(.*)$", text, re.MULTILINE):
        yield component(name, "", f"pkg:pypi/{name.lower().replace('_', '-')}", f"the wheel needs it: {rest or 'any version'}")


def of_lock(path):
    with open(path, encoding="utf-8") as file:
        packages = json.load(file)["packages"]
    for place, package in packages.items():
        if place and not package.get("dev"):
            name = place.rpartition("node_modules/")[2]
            yield component(name, package["version"], f"pkg:npm/{quote(name)}@{package['version']}",
                            "the npm package was tested with it")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("version")
    parser.add_argument("--deb", action="append", default=[])
    parser.add_argument("--wheel", action="append", default=[])
    parser.add_argument("--lock", action="append", default=[])
    parser.add_argument("--compiled-in", action="append", default=[])
    arguments = parser.parse_args()
    components = {}
    for text in arguments.compiled_in:
        name, version, *purls = text.split("=", 2)
        purl = purls[0] if purls else deb_purl(name, version)
        components[purl] = component(name, version, purl, "compiled into the programs")
    for find, paths in ((of_deb, arguments.deb), (of_wheel, arguments.wheel), (of_lock, arguments.lock)):
        for path in paths:
            for found in find(path):
                components.setdefault(found["purl"], found)
    subject = {"type": "application", "bom-ref": "attend", "name": "attend", "version": arguments.version,
               "licenses": [{"license": {"id": "Apache-2.0"}}]}
    print(json.dumps({"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "metadata": {"component": subject},
                      "components": list(components.values())}, indent=2))


if __name__ == "__main__":
    main()
