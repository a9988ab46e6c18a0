import { startDeadline } from '../../base/async.ts';
import { errorText, UserError } from '../../base/user-error.ts';
import type { ToolContext, ToolResult } from '../../engine/ports/tool-ports.ts';
import { parseAllowedHosts, parseFetchUrl, resolveWithSystem } from '../web/destination.ts';
import { fetchWithRedirects, redirectPolicy } from '../web/outbound-request.ts';
import type { WebSettings } from '../web/web-tool-heads.ts';

type UrlCheck = { url: string; status: number };

/** Checks an address of `done_when` the way `web_fetch` does: the public network, and hosts a person allowed. */
export async function checkUrl(
  { url: asked, status }: UrlCheck,
  settings: WebSettings,
  ms: number,
  { signal, permits }: ToolContext,
): Promise<ToolResult> {
  if (!/^https?:/i.test(asked))
    throw new UserError(`${asked}: expected an address that begins with http:// or https://.`);
  const url = parseFetchUrl(asked);
  const limit = startDeadline(signal, ms);
  const may = parseAllowedHosts(settings.network?.allow_private ?? []);
  const way = {
    refuses: redirectPolicy(permits, url),
    may,
    resolve: resolveWithSystem,
    maxBytes: 0,
    signal: limit.signal,
  };
  try {
    const answer = await fetchWithRedirects(url, way);
    return { ok: answer.status === status, text: `${asked}: expected status ${status}, got ${answer.status}` };
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    const why = limit.hasPassed() ? `within ${ms / 1000} s` : `(${errorText(error)})`;
    return { ok: false, text: `${asked}: expected status ${status}, got no answer ${why}` };
  } finally {
    limit.clear();
  }
}
