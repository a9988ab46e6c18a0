import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { truncate } from '../../base/strings.ts';
import { errorCode, errorText, UserError } from '../../base/user-error.ts';

export type HostAddress = { address: string; family: number };
/** Resolves all addresses of a host name. */
export type ResolveHost = (host: string) => Promise<HostAddress[]>;

/** Resolves a host name with the system's resolver. Rejects with its error. */
export const resolveWithSystem: ResolveHost = (host) => lookup(host, { all: true, verbatim: true });

/** Parses a URL from the model. Throws UserError if it is invalid or may not be fetched. */
export function parseFetchUrl(asked: string, base?: URL): URL {
  if (!URL.canParse(asked, base?.href)) {
    throw new UserError(`\`${truncate(asked, 200)}\` is not a URL. Expected one such as https://example.org/page.`);
  }
  const url = new URL(asked, base);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new UserError(`Only http and https can be fetched, got \`${url.protocol}\`.`);
  }
  if (url.username !== '' || url.password !== '') {
    throw new UserError('A URL with a user name or password in it is not fetched. Leave them out.');
  }
  url.hash = '';
  return url;
}

/**
 * The checked addresses of a URL: connections go to these and no others, so that a name that resolves differently a
 * moment later changes nothing. Throws UserError if one is neither public nor allowed.
 */
export async function resolveAllowedAddresses(
  url: URL,
  may: AllowedHosts,
  resolve: ResolveHost,
): Promise<HostAddress[]> {
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  const named = may.host(host);
  const found = isIP(host) ? [{ address: host, family: isIP(host) }] : await resolveOrThrow(host, resolve);
  const refused = found.find(({ address }) => !named && !isPublicAddress(address) && !may.address(address));
  if (refused) {
    const is = refused.address === host ? '' : `${host} is ${refused.address}, `;
    throw new UserError(
      `${url.href} is refused: ${is}${isIP(host) ? 'that is ' : ''}not an address of the public network. ` +
        'A person can allow it with `network.allow_private` in agentd.json.',
    );
  }
  const ours = named || found.every(({ address }) => may.address(address));
  if (!ours && !isAllowedPort(url)) {
    throw new UserError(`${url.href} is refused: of the ports below 1024 only 80 and 443 may be used.`);
  }
  return found;
}

async function resolveOrThrow(host: string, resolve: ResolveHost): Promise<HostAddress[]> {
  try {
    const found = await resolve(host);
    if (found.length > 0) return found;
  } catch (error) {
    const temporary = errorCode(error) === 'EAI_AGAIN';
    if (temporary)
      throw new UserError(
        `The address of \`${host}\` could not be found: the name servers do not answer at the moment.`,
      );
    if (errorCode(error) !== 'ENOTFOUND' && errorCode(error) !== 'ENODATA') {
      throw new UserError(`The address of \`${host}\` could not be found: ${errorText(error)}.`);
    }
  }
  throw new UserError(`There is no host \`${host}\`. Is its name right?`);
}

/** Low ports belong to other services (mail, ssh), which a crafted request might command. */
function isAllowedPort({ port }: URL): boolean {
  return port === '' || port === '80' || port === '443' || Number(port) >= 1024;
}

/** Hosts that a person allowed besides the public network: names, addresses, and ranges such as `10.0.0.0/8`. */
export type AllowedHosts = { host(name: string): boolean; address(address: string): boolean };

/** For URLs from the settings. */
export const ALLOW_ALL: AllowedHosts = { host: () => true, address: () => true };

/** Parses entries of the settings: host names, addresses and address ranges. */
export function parseAllowedHosts(entries: string[]): AllowedHosts {
  const ranges = entries.filter(isRange).map(parseRange);
  const names = new Set(entries.filter((entry) => !isRange(entry)).map(normalizeHostName));
  return {
    host: (name) => names.has(normalizeHostName(name)),
    address: (text) => {
      const address = ipaddr.process(text);
      return ranges.some(([base, bits]) => address.kind() === base.kind() && address.match(base, bits));
    },
  };
}

/** Whether an entry of the settings is an address or range (`10.0.0.1`, `fd00::/8`) rather than a host. */
function isRange(entry: string): boolean {
  return ipaddr.isValidCIDR(entry) || isIP(entry) !== 0;
}

function parseRange(entry: string): [ipaddr.IPv4 | ipaddr.IPv6, number] {
  if (ipaddr.isValidCIDR(entry)) return ipaddr.parseCIDR(entry);
  const address = ipaddr.process(entry);
  return [address, address.kind() === 'ipv4' ? 32 : 128];
}

/** A host name in normal form: lower case, no trailing dot. */
const normalizeHostName = (name: string): string => name.toLowerCase().replace(/\.$/, '');

/**
 * Whether an address is public. IPv4 inside IPv6 (`::ffff:127.0.0.1`) is judged as IPv4; other tunnels and translations
 * to IPv4 (6to4, NAT64, Teredo) are not public, since their other end is unknown.
 */
export function isPublicAddress(text: string): boolean {
  if (!ipaddr.isValid(text)) return false;
  const address = ipaddr.process(text);
  // Only 2000::/3 of IPv6 was ever assigned for global use (RFC 4291, IANA's registry).
  const givenOut = address.kind() === 'ipv4' || address.match(ipaddr.parseCIDR('2000::/3'));
  return givenOut && address.range() === 'unicast';
}
