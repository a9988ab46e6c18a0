import ipaddr from 'ipaddr.js';
import { literal } from '../../protocol/permissions.ts';

/** The address as it will be asked for: what looks like another host is read as what it is. */
export function addressOf(url: string): string {
  if (!URL.canParse(url)) return url;
  const read = new URL(url);
  const host = plainIp(read.hostname.replace(/\.+$/, ''));
  if (read.hostname !== host) read.hostname = host;
  return read.href;
}

/** A host name in which an IPv4 address inside of IPv6 (`[::ffff:7f00:1]`) is the IPv4 address it stands for. */
export function plainIp(host: string): string {
  const inner = /^\[(.*)\]$/.exec(host)?.[1];
  if (inner === undefined || !ipaddr.IPv6.isValid(inner)) return host;
  const address = ipaddr.process(inner);
  return address.kind() === 'ipv4' ? address.toString() : host;
}

/**
 * Other ways to write the same address, one of which a server may take it for: without what stands behind `#`, with the percent
 * signs of its path decoded as often as that changes anything, and without doubled slashes. Null where it is encoded so many times
 * that it cannot be said what it stands for.
 */
export function otherForms(address: string): string[] | null {
  if (!URL.canParse(address)) return [];
  const url = new URL(address);
  url.hash = '';
  const forms = [url.href];
  for (let decoded = addressOf(decodedPath(url.href)); decoded !== forms.at(-1); ) {
    if (forms.length > MAX_ROUNDS) return null;
    forms.push(decoded);
    decoded = addressOf(decodedPath(decoded));
  }
  const flat = forms.map((form) => withPath(form, (path) => path.replace(/\/{2,}/g, '/')));
  return [...new Set([...forms, ...flat])].filter((form) => form !== address);
}

/** Some servers decode what others have decoded before. */
const MAX_ROUNDS = 32;

/** One character of UTF-8 in percent encoding. Other bytes stand for no character and stay as they are. */
const ENCODED =
  /%[0-7][0-9a-f]|%[cd][0-9a-f]%[89ab][0-9a-f]|%e[0-9a-f](?:%[89ab][0-9a-f]){2}|%f[0-7](?:%[89ab][0-9a-f]){3}/gi;

/** The same with each character of its path decoded; `?` and `#` stay what they are. */
const decodedPath = (address: string): string =>
  withPath(address, (path) =>
    path.replace(ENCODED, (bytes) => {
      try {
        return decodeURIComponent(bytes).replace(/[?#\s]/g, encodeURIComponent);
      } catch {
        return bytes;
      }
    }),
  );

function withPath(address: string, change: (path: string) => string): string {
  const [, host = '', path = '', rest = ''] = /^([a-z]+:\/\/[^/?#]*)([^?#]*)([\s\S]*)$/i.exec(address) ?? [];
  return host + change(path) + rest;
}

/** The rule for a tool and all of an address's host. */
export function ofHost(tool: string, url: string): string {
  const { origin } = URL.canParse(url) ? new URL(addressOf(url)) : { origin: 'null' };
  return `${tool}(${origin === 'null' ? literal(url) : `${literal(origin)}/*`})`;
}
