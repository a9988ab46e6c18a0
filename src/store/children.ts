import * as fs from 'node:fs';
import { join } from 'node:path';
import type { Children } from '../engine/ports.ts';
import { errorText, UserError } from '../protocol/errors.ts';
import type { Event } from '../protocol/event.ts';
import { sessionFolder } from '../protocol/names.ts';
import { LOST, Reply } from '../protocol/reply.ts';
import { dropMessage } from './drop-message.ts';
import { ifThere, RecordCorrupt, saying } from './errors.ts';
import { lastEventOf } from './last-event.ts';
import { type SessionPaths, sessionPaths } from './layout.ts';
import { readRecord } from './record.ts';
import type { Workspace } from './workspace.ts';

/** What the daemon is told and knows of the children of a session. */
export type Family = {
  /** This session waits for that one. */
  adopted(child: string): void;
  /** Why that one is not served, and will not be until a person comes; undefined where it is. */
  quarantined(child: string): string | undefined;
};

/** Child sessions as folders beside their parent, spoken to like any frontend does. */
export function openChildren(
  workspace: Pick<Workspace, 'paths' | 'has' | 'create'>,
  { adopted, quarantined }: Family,
): Children {
  const pathsOf = (child: string) => sessionPaths(workspace.paths.session(child));
  return {
    async send(child, message) {
      adopted(child);
      if (!workspace.has(child)) {
        if (message.command !== undefined) return 'gone';
        await workspace.create(child);
      }
      const content = `${JSON.stringify(message, null, 2)}\n`;
      try {
        await dropMessage(pathsOf(child).folder, { name: fileOf(message.id), content });
      } catch (error) {
        // Sent before a crash and not taken yet: it is there already.
        if (!(error instanceof UserError) || !fs.existsSync(join(pathsOf(child).inbox, fileOf(message.id))))
          throw error;
      }
      return 'sent';
    },
    async reply(child, id) {
      adopted(child);
      if (!workspace.has(child))
        return lost(child, id, `the session ${child} is gone: its folder was removed or renamed`);
      const text = textOf(pathsOf(child), fileOf(id));
      if (text !== undefined) return read(child, id, text);
      const why = quarantined(child);
      if (why !== undefined) return failed(child, id, `the session ${child} cannot be served: ${why}`);
      return settledReply(child, id, pathsOf(child));
    },
    async consume(child, step) {
      const { outbox, outboxRead } = pathsOf(child);
      const own = `${sessionFolder(step)}.`;
      for (const name of ifThere(() => fs.readdirSync(outbox)) ?? []) {
        if (!name.startsWith(own) || !name.endsWith('.msg.json')) continue;
        saying('move a reply to', outboxRead, () =>
          ifThere(() => fs.renameSync(join(outbox, name), join(outboxRead, name))),
        );
      }
    },
  };
}

const fileOf = (id: string): string => `${sessionFolder(id)}.msg.json`;

function textOf({ outbox, outboxRead }: SessionPaths, name: string): string | undefined {
  for (const folder of [outbox, outboxRead]) {
    const text = ifThere(() => fs.readFileSync(join(folder, name), 'utf8'));
    if (text !== undefined) return text;
  }
  return undefined;
}

/**
 * What became of a message whose reply is not in the outbox. Undefined while it is waited for; a session in which nothing is open has
 * answered it, and the record knows how, or never heard of it.
 */
async function settledReply(child: string, id: string, paths: SessionPaths): Promise<Reply | undefined> {
  if (fs.existsSync(join(paths.inbox, fileOf(id)))) return undefined;
  const last = lastEventOf(paths);
  const isOpen = last && last.type !== 'session.opened' && !(last.type === 'reply.published' && last.idle);
  if (isOpen) return undefined;
  let reply: Reply | undefined;
  try {
    const known = (event: Event) => {
      if (event.type === 'reply.committed' && event.message === id) reply = event.reply;
    };
    await readRecord(paths, known, 'oldest');
  } catch (error) {
    // Whoever opens the session says what is wrong with it.
    if (error instanceof RecordCorrupt) return undefined;
    throw error;
  }
  return reply ?? lost(child, id, `the session ${child} never got, or has lost, the message ${id}`);
}

function read(child: string, id: string, text: string): Reply {
  try {
    return Reply.parse(JSON.parse(text));
  } catch (error) {
    return failed(child, id, `its reply to ${id} cannot be read: ${errorText(error)}`);
  }
}

const lost = (child: string, id: string, text: string): Reply => ({ ...failed(child, id, text), reason: LOST });

function failed(child: string, id: string, text: string): Reply {
  return {
    id: fileOf(id),
    in_reply_to: id,
    session: child,
    status: 'failed',
    text,
    plan: null,
    usage: null,
    attachments: [],
  };
}
