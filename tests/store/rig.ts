import * as fs from 'node:fs';
import { join } from 'node:path';
import type { SessionStore } from '../../src/engine/ports/store-ports.ts';
import type { Event, EventBody } from '../../src/protocol/session/event.ts';
import { openSessionFolder, type SessionFolderOptions, sessionPaths, sessionTokens } from '../../src/store/index.ts';
import { memoryStore } from '../support/memory-store.ts';
import { temporaryFolder } from '../support/temporary.ts';

/** A store, and functions that act as people and frontends. `reopen` is the next daemon on the same folder. */
export type Rig = {
  store: SessionStore;
  drop(name: string, content: string | Buffer): void;
  /** `mv done/<from> inbox/<to>` */
  putBack(from: string, to: string): void;
  attach(name: string): void;
  edit(content: string): void;
  deletePlan(): void;
  planText(): string | undefined;
  archived(id: string): string | undefined;
  replies(): Record<string, string>;
  consume(name: string): void;
  waiting(): string[];
  done(): string[];
  rejected(): string[];
  uploads(): string[];
  live(): string;
  reopen(): Promise<Rig>;
};

export const at = () => new Date('2026-01-02T03:04:05.678Z');

/** A folder that is removed after the test. */
export function tempFolder(): string {
  const folder = temporaryFolder('store');
  return folder;
}

export function diskRig(folder = tempFolder(), options: Partial<SessionFolderOptions> = {}): Rig {
  const paths = sessionPaths(folder);
  const store = openSessionFolder(folder, sessionTokens().take('demo'), { now: at, ...options });
  let dropped = 0;
  return {
    store,
    drop(name, content) {
      const path = join(paths.inbox, name);
      fs.writeFileSync(path, content);
      // Files created within one tick of the clock would have no order; people are slower.
      fs.utimesSync(path, 1_700_000_000 + ++dropped, 1_700_000_000 + dropped);
    },
    putBack: (from, to) => fs.renameSync(join(paths.done, from), join(paths.inbox, to)),
    attach: (name) => fs.writeFileSync(join(paths.inboxFiles, name), `content of ${name}`),
    edit(content) {
      fs.writeFileSync(`${paths.plan}~`, content);
      fs.renameSync(`${paths.plan}~`, paths.plan);
    },
    deletePlan: () => fs.unlinkSync(paths.plan),
    planText: () => textOf(paths.plan),
    archived: (id) => textOf(join(paths.plans, `${id}.json`)),
    replies: () =>
      Object.fromEntries(visible(paths.outbox).map((name) => [name, textOf(join(paths.outbox, name)) ?? ''])),
    consume: (name) => fs.renameSync(join(paths.outbox, name), join(paths.outboxRead, name)),
    waiting: () => visible(paths.inbox),
    done: () => visible(paths.done),
    rejected: () => visible(paths.rejected).filter((name) => !name.endsWith('.why.json')),
    uploads: () => (fs.existsSync(join(paths.work, 'uploads')) ? visible(join(paths.work, 'uploads')) : []),
    live: () => textOf(paths.live) ?? '',
    async reopen() {
      await store.close();
      return diskRig(folder, options);
    },
  };
}

export function memoryRig(store = memoryStore('demo', { now: at })): Rig {
  const { hands } = store;
  return {
    store,
    drop: hands.drop,
    putBack: hands.putBack,
    attach: hands.attach,
    edit: hands.edit,
    deletePlan: hands.deletePlan,
    planText: hands.planText,
    archived: (id) => hands.plans().get(id),
    replies: () => Object.fromEntries(hands.replies()),
    consume: hands.consume,
    waiting: () => hands.waiting().sort(),
    done: () => hands.done().sort(),
    rejected: () => [...hands.rejected().keys()].sort(),
    uploads: () => hands.uploads().map((path) => path.replace('uploads/', '')),
    live: hands.live,
    reopen: async () => memoryRig(hands.restart()),
  };
}

const visible = (folder: string) =>
  fs
    .readdirSync(folder)
    .filter((name) => !name.startsWith('.') && name !== 'read')
    .sort();

const textOf = (path: string) => (fs.existsSync(path) ? fs.readFileSync(path, 'utf8') : undefined);

export async function eventsOf(store: SessionStore): Promise<Event[]> {
  const events: Event[] = [];
  await store.eventLog.read((event) => events.push(event));
  return events;
}

export const opened: EventBody = { type: 'session.opened', format: 1, key: 'demo' };
export const progressed = (current: number): EventBody => ({
  type: 'step.progressed',
  step: 'step_1',
  progress: { current, total: 100 },
});
