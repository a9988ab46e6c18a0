import * as fs from 'node:fs';
import { join } from 'node:path';
import { reduceEvent } from '../../src/core/reducers/reduce-event.ts';
import { emptySession, type Session } from '../../src/core/session/session-state.ts';
import type { Event } from '../../src/protocol/session/event.ts';
import { openWorkspace, sessionPaths } from '../../src/store/index.ts';

/** A session by its current event log. */
export type Recorded = { name: string; events: Event[]; session: Session; changedMs: number };

/** The event logs of all sessions of a workspace, including child sessions; each is read again only if it changed. */
export function recordsOf(root: string) {
  const known = new Map<string, Recorded & { stamp: string }>();

  async function look(name: string): Promise<void> {
    const { folder, events: path } = sessionPaths(join(root, '.sessions', name));
    const stat = fs.statSync(path, { throwIfNoEntry: false });
    const stamp = `${stat?.ino} ${stat?.size} ${stat?.mtimeMs}`;
    if (!fs.existsSync(folder) || !stat || known.get(name)?.stamp === stamp) return;
    const events: Event[] = [];
    await openWorkspace(root, { now: () => new Date() }).readEvents(name, (event) => void events.push(event));
    const session = events.reduce(reduceEvent, emptySession(name));
    known.set(name, { name, events, session, stamp, changedMs: performance.now() });
  }

  return {
    async all(): Promise<Recorded[]> {
      const sessions = join(root, '.sessions');
      for (const name of fs.existsSync(sessions) ? fs.readdirSync(sessions) : [])
        if (!name.startsWith('.')) await look(name);
      return [...known.values()];
    },
  };
}

/** What is open in a session, as text; empty if it is idle. */
export function openIn({ session, events }: Recorded, inbox: string): string[] {
  const waiting = fs.existsSync(inbox) ? fs.readdirSync(inbox).filter((name) => !name.startsWith('.')) : [];
  const open = [
    ...waiting.map((name) => `${name} is in inbox/`),
    ...(session.run ? [`its run (of ${session.run.message}) is on`] : []),
    ...session.unanswered.map((id) => `${id} has no reply`),
    ...Object.keys(session.unpublishedReplies).map((id) => `the reply to ${id} is not in outbox/`),
  ];
  const last = events.at(-1);
  return open.length > 0 ? [...open, `last event: ${JSON.stringify(last ?? null).slice(0, 300)}`] : [];
}
