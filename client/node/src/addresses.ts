/** Addresses of servers. */

import { lookup } from "node:dns/promises";
import { AttendError } from "./errors.js";

// Targets that gRPC reads in another way than host:port.
const SCHEMES = /^(dns|ipv4|ipv6|unix|unix-abstract|xds):/;

/** Throws TypeError for what is no list of host:port, and no other target of gRPC. */
export function checkAddresses(addresses: readonly string[]): void {
  if (addresses.length === 0 || addresses.includes("")) {
    throw new TypeError(`server: expected host:port, dns:///name:port or unix:/path, found "${addresses.join(",")}"`);
  }
  const hasScheme = addresses.length === 1 && SCHEMES.test(addresses[0] ?? "");
  const wrong = hasScheme ? undefined : addresses.find((address) => !isHostAndPort(address));
  if (wrong !== undefined) {
    throw new TypeError(`server: expected host:port with a port of 1 to 65535, found "${wrong}"`);
  }
}

function isHostAndPort(address: string): boolean {
  const port = /^(?:\[[^[\]/]*:[^[\]/]*\]|[^[\]:/]+):(\d{1,5})$/.exec(address)?.[1];
  return Number(port) >= 1 && Number(port) <= 65_535;
}

export function hostAndPort(address: string): [string, string] {
  const colon = address.lastIndexOf(":");
  return [address.slice(0, colon).replace(/^\[|\]$/g, ""), address.slice(colon + 1)];
}

/** Returns grpc-js's target for several host:port. Its lists have numeric addresses of one family. Unknown names are left out. */
export async function targetOf(addresses: readonly string[]): Promise<string> {
  const found = await Promise.all(
    addresses.map(async (address) => {
      const [host, port] = hostAndPort(address);
      const known = await lookup(host, { all: true }).catch(() => []);
      return known.map(({ address: number, family }) => ({ number, family, port }));
    }),
  );
  const all = found.flat();
  if (all.length === 0) {
    throw new AttendError("UNAVAILABLE", `server: expected hosts that the system knows, found none in ${addresses.join(",")}`);
  }
  if (all.every(({ family }) => family === 4)) {
    return `ipv4:${all.map(({ number, port }) => `${number}:${port}`).join(",")}`;
  }
  return `ipv6:${all.map(({ number, family, port }) => `[${family === 4 ? "::ffff:" : ""}${number}]:${port}`).join(",")}`;
}
