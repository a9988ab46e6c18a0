import type { ToolContext, ToolResult } from '../../engine/ports.ts';
import { errorText, UserError } from '../../protocol/errors.ts';
import { deadline } from '../deadline.ts';
import { allowed } from './addresses.ts';
import { readUrl, systemResolve } from './destination.ts';
import { follow, hopsHeldTo } from './outbound.ts';
import type { WebSettings } from './settings.ts';

type Wanted = { url: string; status: number };

/** Tries an address of `done_when`, in the way of `web_fetch`: the public network, and what a person allowed besides. */
export async function checkUrl(
  { url: asked, status }: Wanted,
  settings: WebSettings,
  ms: number,
  { signal, permits }: ToolContext,
): Promise<ToolResult> {
  if (!/^https?:/i.test(asked))
    throw new UserError(`${asked}: wanted an address that begins with http:// or https://.`);
  const url = readUrl(asked);
  const limit = deadline(signal, ms);
  const may = allowed(settings.network?.allow_private ?? []);
  const way = { refuses: hopsHeldTo(permits, url), may, resolve: systemResolve, maxBytes: 0, signal: limit.signal };
  try {
    const answer = await follow(url, way);
    return { ok: answer.status === status, text: `${asked}: wanted status ${status}, came ${answer.status}` };
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    const why = limit.passed() ? `within ${ms / 1000} s` : `(${errorText(error)})`;
    return { ok: false, text: `${asked}: wanted status ${status}, came no answer ${why}` };
  } finally {
    limit.clear();
  }
}
