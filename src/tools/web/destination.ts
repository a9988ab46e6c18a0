import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { errorCode, errorText, UserError } from '../../protocol/errors.ts';
import { clip } from '../../protocol/recorded.ts';
import { type Allowed, isPublic } from './addresses.ts';

export type Address = { address: string; family: number };
/** All addresses of a host name. */
export type Resolve = (host: string) => Promise<Address[]>;

export const systemResolve: Resolve = (host) => lookup(host, { all: true, verbatim: true });

/** What the model asked for as a URL that may be tried. Throws UserError with what is wrong with it. */
export function readUrl(asked: string, base?: URL): URL {
  if (!URL.canParse(asked, base?.href)) {
    throw new UserError(`\`${clip(asked, 200)}\` is not a URL. Wanted one such as https://example.org/page.`);
  }
  const url = new URL(asked, base);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new UserError(`Only http and https can be fetched, came \`${url.protocol}\`.`);
  }
  if (url.username !== '' || url.password !== '') {
    throw new UserError('A URL with a user name or password in it is not fetched. Leave them out.');
  }
  url.hash = '';
  return url;
}

/**
 * The addresses a URL leads to, each of them checked: the connection is to be made to these and no others, so that a name that
 * answers differently a moment later changes nothing. Throws UserError where one is not public and nobody allowed it.
 */
export async function addressesOf(url: URL, may: Allowed, resolve: Resolve): Promise<Address[]> {
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  const named = may.host(host);
  const found = isIP(host) ? [{ address: host, family: isIP(host) }] : await resolved(host, resolve);
  const refused = found.find(({ address }) => !named && !isPublic(address) && !may.address(address));
  if (refused) {
    const is = refused.address === host ? '' : `${host} is ${refused.address}, `;
    throw new UserError(
      `${url.href} is refused: ${is}${isIP(host) ? 'that is ' : ''}not an address of the public network. ` +
        'A person can allow it with `network.allow_private` in agentd.json.',
    );
  }
  const ours = named || found.every(({ address }) => may.address(address));
  if (!ours && !isOpenPort(url)) {
    throw new UserError(`${url.href} is refused: of the ports below 1024 only 80 and 443 may be used.`);
  }
  return found;
}

async function resolved(host: string, resolve: Resolve): Promise<Address[]> {
  try {
    const found = await resolve(host);
    if (found.length > 0) return found;
  } catch (error) {
    const temporary = errorCode(error) === 'EAI_AGAIN';
    if (temporary)
      throw new UserError(`The address of \`${host}\` could not be found now: no answer of the name servers.`);
    if (errorCode(error) !== 'ENOTFOUND' && errorCode(error) !== 'ENODATA') {
      throw new UserError(`The address of \`${host}\` could not be found: ${errorText(error)}.`);
    }
  }
  throw new UserError(`There is no host \`${host}\`. Is its name right?`);
}

/** Small ports belong to other services (mail, ssh), which a request in their own words might command. */
function isOpenPort({ port }: URL): boolean {
  return port === '' || port === '80' || port === '443' || Number(port) >= 1024;
}
