import * as fs from 'node:fs';
import { join } from 'node:path';
import { errorText, UserError } from '../../base/user-error.ts';
import type { ChildSessions } from '../../engine/ports/session-ports.ts';
import type { Event } from '../../protocol/session/event.ts';
import { Reply, RUN_END } from '../../protocol/session/reply.ts';
import { ApprovalFile, type ChildCall } from '../../protocol/settings/permissions.ts';
import { sessionFolder } from '../../protocol/workspace/session-names.ts';
import { readEventLog, readLastEvent } from '../event-log/log-reader.ts';
import { readJsonFile } from '../fs/file-reads.ts';
import { CorruptLogError, ifExists, wrapDiskErrors } from '../fs/store-errors.ts';
import { dropMessage } from '../inbox/sender.ts';
import { type SessionPaths, sessionPaths } from '../layout/layout.ts';
import { listApprovalIds } from '../session/approval-files.ts';
import type { Workspace } from './workspace.ts';

/** How child sessions and the daemon inform each other. */
export type ChildHooks = {
  /** This session waits for that one. */
  onAdopted(child: string): void;
  /** Why the child is not served until a person intervenes; undefined if it is served. */
  quarantineReason(child: string): string | undefined;
};

/** Child sessions as folders beside their parent, accessed in the same way as by any frontend. */
export function openChildSessions(
  workspace: Pick<Workspace, 'paths' | 'has' | 'create' | 'listSessions'>,
  { onAdopted, quarantineReason }: ChildHooks,
): ChildSessions {
  const pathsOf = (child: string) => sessionPaths(workspace.paths.session(child));
  return {
    async send(child, message) {
      // An answer to a call may be for a child's child, which another session waits for.
      if (!ANSWERS.has(message.command)) onAdopted(child);
      if (!workspace.has(child)) {
        if (message.command !== undefined) return 'gone';
        await workspace.create(child);
      }
      const content = `${JSON.stringify(message, null, 2)}\n`;
      try {
        await dropMessage(pathsOf(child).folder, { name: messageFileName(message.id), content });
      } catch (error) {
        // It was sent before a crash and has not been taken yet.
        if (!(error instanceof UserError) || !fs.existsSync(join(pathsOf(child).inbox, messageFileName(message.id))))
          throw error;
      }
      return 'sent';
    },
    async reply(child, id) {
      onAdopted(child);
      if (!workspace.has(child))
        return lostReply(child, id, `the session ${child} is gone: its folder was removed or renamed`);
      const text = readReplyText(pathsOf(child), messageFileName(id));
      if (text !== undefined) return parseReply(child, id, text);
      const why = quarantineReason(child);
      if (why !== undefined) return failedReply(child, id, `the session ${child} cannot be served: ${why}`);
      return replyFromLog(child, id, pathsOf(child));
    },
    async waitingCalls(root, known) {
      const names = workspace.listSessions().filter((name) => name.startsWith(`${root}~`));
      const served = names.sort().filter((name) => quarantineReason(name) === undefined);
      return served.flatMap((name) => waitingCallsOf(name, pathsOf(name), known));
    },
    async consume(child, step) {
      const { outbox, outboxRead } = pathsOf(child);
      const own = `${sessionFolder(step)}.`;
      for (const name of ifExists(() => fs.readdirSync(outbox)) ?? []) {
        if (!name.startsWith(own) || !name.endsWith('.msg.json')) continue;
        wrapDiskErrors('move a reply to', outboxRead, () =>
          ifExists(() => fs.renameSync(join(outbox, name), join(outboxRead, name))),
        );
      }
    },
  };
}

const ANSWERS: ReadonlySet<string | undefined> = new Set(['approve', 'deny']);

const messageFileName = (id: string): string => `${sessionFolder(id)}.msg.json`;

/** A call whose file has an answer waits no more. */
function waitingCallsOf(session: string, paths: SessionPaths, known: readonly ChildCall[]): ChildCall[] {
  return listApprovalIds(paths).flatMap((id): ChildCall[] => {
    const data = readJsonFile(join(paths.approvals, `${id}.json`), ApprovalFile);
    if (!data) return known.filter((one) => one.session === session && one.id === id);
    if (data.decision !== null) return [];
    const { call, display, why, always, hash, expires_at } = data;
    return [{ session, id, tool: call.tool, display, why, always, hash, expires_at }];
  });
}

function readReplyText({ outbox, outboxRead }: SessionPaths, name: string): string | undefined {
  for (const folder of [outbox, outboxRead]) {
    const text = ifExists(() => fs.readFileSync(join(folder, name), 'utf8'));
    if (text !== undefined) return text;
  }
  return undefined;
}

/**
 * The outcome of a message whose reply is not in the outbox; undefined while it is pending. If nothing is open in the
 * session, it has either answered the message, so that its event log has the reply, or never received it.
 */
async function replyFromLog(child: string, id: string, paths: SessionPaths): Promise<Reply | undefined> {
  if (fs.existsSync(join(paths.inbox, messageFileName(id)))) return undefined;
  const last = readLastEvent(paths);
  const isOpen = last && last.type !== 'session.opened' && !(last.type === 'reply.published' && last.idle);
  if (isOpen) return undefined;
  let reply: Reply | undefined;
  try {
    const known = (event: Event) => {
      if (event.type === 'reply.committed' && event.message === id) reply = event.reply;
    };
    await readEventLog(paths, known, 'oldest');
  } catch (error) {
    // The damage is reported when the session is opened.
    if (error instanceof CorruptLogError) return undefined;
    throw error;
  }
  return reply ?? lostReply(child, id, `the session ${child} never got, or has lost, the message ${id}`);
}

function parseReply(child: string, id: string, text: string): Reply {
  try {
    return Reply.parse(JSON.parse(text));
  } catch (error) {
    return failedReply(child, id, `its reply to ${id} cannot be read: ${errorText(error)}`);
  }
}

const lostReply = (child: string, id: string, text: string): Reply => ({
  ...failedReply(child, id, text),
  reason: RUN_END.stateLost,
});

function failedReply(child: string, id: string, text: string): Reply {
  return {
    id: messageFileName(id),
    in_reply_to: id,
    session: child,
    status: 'failed',
    text,
    plan: null,
    usage: null,
    attachments: [],
  };
}
