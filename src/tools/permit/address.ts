import { literal } from '../../protocol/permissions.ts';

/** The address as it will be asked for: what looks like another host is read as what it is. */
export function addressOf(url: string): string {
  return URL.canParse(url) ? new URL(url).href : url;
}

/** The rule for a tool and all of an address's host. */
export function ofHost(tool: string, url: string): string {
  const { origin } = URL.canParse(url) ? new URL(url) : { origin: 'null' };
  return `${tool}(${origin === 'null' ? literal(url) : `${literal(origin)}/*`})`;
}
