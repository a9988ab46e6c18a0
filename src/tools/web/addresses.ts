import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

/** What a person allowed besides the public network: host names, addresses, and ranges such as `10.0.0.0/8`. */
export type Allowed = { host(name: string): boolean; address(address: string): boolean };

/** Of an address that a person put into the settings: it is their word. */
export const ANYWHERE: Allowed = { host: () => true, address: () => true };

export function allowed(entries: string[]): Allowed {
  const ranges = entries.filter(isRange).map(rangeOf);
  const names = new Set(entries.filter((entry) => !isRange(entry)).map(plainHost));
  return {
    host: (name) => names.has(plainHost(name)),
    address: (text) => {
      const address = ipaddr.process(text);
      return ranges.some(([base, bits]) => address.kind() === base.kind() && address.match(base, bits));
    },
  };
}

/** Whether an entry of the settings names addresses (`10.0.0.1`, `fd00::/8`) rather than a host. */
function isRange(entry: string): boolean {
  return ipaddr.isValidCIDR(entry) || isIP(entry) !== 0;
}

function rangeOf(entry: string): [ipaddr.IPv4 | ipaddr.IPv6, number] {
  if (ipaddr.isValidCIDR(entry)) return ipaddr.parseCIDR(entry);
  const address = ipaddr.process(entry);
  return [address, address.kind() === 'ipv4' ? 32 : 128];
}

/** A host name as it is compared: lower case, no dot at its end. */
const plainHost = (name: string): string => name.toLowerCase().replace(/\.$/, '');

/**
 * Whether an address belongs to the public network. IPv4 inside of IPv6 (`::ffff:127.0.0.1`) is judged as the IPv4 it is; what
 * tunnels or translates to IPv4 otherwise (6to4, NAT64, Teredo) is not public, since its other end is not seen here.
 */
export function isPublic(text: string): boolean {
  if (!ipaddr.isValid(text)) return false;
  const address = ipaddr.process(text);
  // Of IPv6 only 2000::/3 was ever given out for global use (RFC 4291, IANA's registry).
  const givenOut = address.kind() === 'ipv4' || address.match(ipaddr.parseCIDR('2000::/3'));
  return givenOut && address.range() === 'unicast';
}
