import { readFileSync } from 'node:fs';

/** Our own version. Left to itself, yargs takes that of the package we are installed in. */
export function ownVersion(): string {
  const own: unknown = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
  return typeof own === 'object' && own !== null && 'version' in own ? String(own.version) : 'unknown';
}
