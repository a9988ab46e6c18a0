import { existsSync } from 'node:fs';
import { basename, join } from 'node:path';
import {
  type McpServer,
  type ReadResourceResult,
  ResourceNotFoundError,
  ResourceTemplate,
} from '@modelcontextprotocol/server';
import { attempt, errorText } from '../../base/user-error.ts';
import type { Client } from '../../client/index.ts';
import { NoSuchSession, WaitedTooLong } from '../../client/sessions/client-errors.ts';
import type { Event } from '../../protocol/session/event.ts';
import { inlineText } from '../../protocol/session/log-entry.ts';
import { readableName } from '../../protocol/workspace/session-names.ts';

const MAX_LISTED = 200;
const MAX_ENTRIES = 200;

const PLAN_URI = 'agentd://sessions/{session}/plan';

/** The session whose plan a URI names; undefined for any other URI. */
export function sessionOfPlanUri(uri: string): string | undefined {
  const [, session] = /^agentd:\/\/sessions\/([^/?#]+)\/plan$/.exec(uri) ?? [];
  return attempt(() => (session === undefined ? undefined : decodeURIComponent(session)));
}

/** Plans, transcripts and replies of sessions, to be read by their URI. */
export function addResources(server: McpServer, client: Client): void {
  const add = (name: string, uri: string, description: string, mimeType: string, read: ReadText) =>
    server.registerResource(
      name,
      new ResourceTemplate(uri, { list: uri === PLAN_URI ? () => ({ resources: listPlans(client) }) : undefined }),
      { description, mimeType },
      async (at, variables): Promise<ReadResourceResult> => {
        try {
          const [session, rest] = [variables['session'], variables['name']].map((one) => decodeURIComponent(`${one}`));
          const text = await read(basename(client.folder(session ?? '')), rest ?? '');
          return { contents: [{ uri: at.href, mimeType, text }] };
        } catch (error) {
          throw isMissing(error) ? new ResourceNotFoundError(at.href, errorText(error)) : error;
        }
      },
    );
  add(
    'plan',
    PLAN_URI,
    'The plan, as plan.json has it; null where there is none.',
    'application/json',
    async (session) => JSON.stringify((await client.show(session)).session.plan, null, 2),
  );
  const transcriptUri = 'agentd://sessions/{session}/transcript';
  add('transcript', transcriptUri, `Messages and replies, the newest ${MAX_ENTRIES}.`, 'text/markdown', (session) =>
    transcriptOf(client, session),
  );
  add('reply', 'agentd://sessions/{session}/reply/{name}', 'One reply.', 'application/json', async (session, name) => {
    if (/^\.|[/\\\0]/.test(name))
      throw new ResourceNotFoundError(name, 'Expected a reply_name that send_message gave.');
    return JSON.stringify(await client.waitForReply(session, name, { timeoutMs: 0 }), null, 2);
  });
}

type ReadText = (session: string, name: string) => Promise<string>;

const isMissing = (error: unknown): boolean =>
  [NoSuchSession, WaitedTooLong, URIError].some((kind) => error instanceof kind);

function listPlans(client: Client) {
  const withPlan = client.sessions().filter((name) => existsSync(join(client.folder(name), 'plan.json')));
  return withPlan.slice(0, MAX_LISTED).map((name) => ({
    uri: PLAN_URI.replace('{session}', encodeURIComponent(name)),
    ...{ name: `Plan of ${readableName(name)}`, mimeType: 'application/json' },
  }));
}

async function transcriptOf(client: Client, session: string): Promise<string> {
  const entries: string[] = [];
  for await (const { event } of client.events(session)) {
    const entry = entryOf(event);
    if (entry !== undefined) entries.push(entry);
    if (entries.length > MAX_ENTRIES) entries.shift();
  }
  return entries.join('\n\n');
}

function entryOf(event: Event): string | undefined {
  if (event.type === 'reply.committed') return `## agentd (${event.reply.status}), ${event.at}\n\n${event.reply.text}`;
  if (event.type !== 'message.received') return undefined;
  const command = event.command === undefined ? '' : `/${event.command} `;
  return `## ${event.from ?? 'Message'}, ${event.at}\n\n${command}${inlineText(event.body)}`;
}

/** Who is subscribed to which plans. A holder is a subscription of the client, by any name of its own. */
export type PlanSubscriptions = {
  add(holder: string | number, uris: readonly string[]): void;
  remove(holder: string | number): void;
  close(): void;
};

/** Calls `onUpdate` with the URI of a plan at each new version of it, while somebody subscribes to it. */
export function openPlanSubscriptions(client: Client, onUpdate: (uri: string) => void): PlanSubscriptions {
  const wanted = new Map<string | number, readonly string[]>();
  const watches = new Map<string, AbortController>();

  const updateWatches = () => {
    const uris = new Set([...wanted.values()].flat());
    for (const [uri, watch] of watches) {
      if (uris.has(uri)) continue;
      watch.abort();
      watches.delete(uri);
    }
    for (const uri of uris) {
      const session = sessionOfPlanUri(uri);
      if (watches.has(uri) || session === undefined) continue;
      const watch = new AbortController();
      watches.set(uri, watch);
      const isOver = () => watches.get(uri) === watch && watches.delete(uri);
      // A session that is not there, or was removed, has nothing more to tell.
      followPlan(client, session, watch.signal, () => onUpdate(uri)).then(isOver, isOver);
    }
  };
  const remove = (holder: string | number) => {
    if (wanted.delete(holder)) updateWatches();
  };
  return {
    add(holder, uris) {
      wanted.set(holder, uris);
      updateWatches();
    },
    remove,
    close: () => [...wanted.keys()].forEach(remove),
  };
}

/** Begins with one call, so that what changed before it looked is read too. */
async function followPlan(client: Client, session: string, signal: AbortSignal, changed: () => void): Promise<void> {
  let known: string | undefined;
  for await (const item of client.watch(session, { signal })) {
    const { plan } = item.session;
    const version = plan ? `${plan.id}.${plan.revision}` : '';
    if (known !== version) changed();
    known = version;
  }
}
