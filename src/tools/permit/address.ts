import { literal } from '../../protocol/permissions.ts';

/** The address as it will be asked for: what looks like another host is read as what it is. */
export function addressOf(url: string): string {
  if (!URL.canParse(url)) return url;
  const read = new URL(url);
  if (read.hostname.endsWith('.')) read.hostname = read.hostname.replace(/\.+$/, '');
  return read.href;
}

/**
 * Other ways to write the same address, one of which a server may take it for: without what stands behind `#`, with the percent
 * signs of its path decoded, and without doubled slashes.
 */
export function otherForms(address: string): string[] {
  if (!URL.canParse(address)) return [];
  const url = new URL(address);
  url.hash = '';
  const forms = [url.href];
  for (let round = 0; round < MOST_ROUNDS; round++) {
    const last = forms.at(-1) ?? url.href;
    const decoded = addressOf(decodedPath(last));
    if (decoded === last) break;
    forms.push(decoded);
  }
  const flat = forms.map((form) => withPath(form, (path) => path.replace(/\/{2,}/g, '/')));
  return [...new Set([...forms, ...flat])].filter((form) => form !== address);
}

/** Some servers decode what others have decoded before. */
const MOST_ROUNDS = 3;

/** The same with each percent sign of its path decoded that stands for a character of a path; `?` and `#` stay what they are. */
const decodedPath = (address: string): string =>
  withPath(address, (path) =>
    path.replace(/(?:%[0-9a-f]{2})+/gi, (bytes) => {
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
