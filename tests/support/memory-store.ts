import type { SessionStore } from '../../src/engine/ports/store-ports.ts';
import type { Event } from '../../src/protocol/session/event.ts';
import { templatesFromSource } from '../../src/store/templates/template-store.ts';
import {
  type Contents,
  eventsOf,
  memoryApprovals,
  memoryBlobs,
  memoryInbox,
  memoryJournal,
  memoryOutbox,
  memoryPlan,
  memorySnapshots,
} from './memory-ports.ts';

export type MemoryOptions = { now?: () => Date; epoch?: number; work?: string };

/** What people, frontends and accidents do to a session folder. */
export type Hands = {
  drop(name: string, content: string | Buffer): void;
  /** `mv done/<from> inbox/<to>` */
  putBack(from: string, to: string): void;
  /** Puts a file into `inbox/.files/`. */
  attach(name: string, content?: Buffer): void;
  /** A file the agent made, as `work/x`. */
  make(path: string, content?: Uint8Array): void;
  /** Saves `templates/<name>.md` of the workspace. */
  template(name: string, content: string): void;
  /** Saves `plan.json`. */
  edit(content: string): void;
  deletePlan(): void;
  planText(): string | undefined;
  /** Ended plans by id. */
  plans(): ReadonlyMap<string, string>;
  /** What is in `outbox/` now. */
  replies(): ReadonlyMap<string, string>;
  /** `approvals/` and `approvals/answered/` by number. */
  approvals(): ReadonlyMap<number, string>;
  answered(): ReadonlyMap<number, string>;
  /** Saves, or without a text removes, `approvals/<id>.json`. */
  saveApproval(id: number, text?: string): void;
  /** Saves `session.json`, and what is in it now. */
  saveSettings(text: string): void;
  settings(): string | undefined;
  /** Moves a reply to `outbox/read/`. */
  consume(name: string): void;
  events(): Event[];
  lastEvent(): Event | undefined;
  /** Names in `inbox/`, in `done/`; and what was refused, with its reason. */
  waiting(): string[];
  done(): string[];
  rejected(): ReadonlyMap<string, string>;
  uploads(): string[];
  live(): string;
  /** The same folder opened by the next daemon. `powerCut`: what was not synced is gone. */
  restart(how?: { powerCut?: boolean }): MemoryStore;
};

export type MemoryStore = SessionStore & { hands: Hands };

/** A session folder without a disk: the same promises (tests/store/promises.ts), and hands to play the other side. */
export function memoryStore(name: string, options: MemoryOptions = {}): MemoryStore {
  const contents: Contents = {
    lines: [],
    synced: 0,
    snapshot: undefined,
    blobs: new Map(),
    inbox: new Map(),
    files: new Map(),
    uploads: new Set(),
    made: new Map(),
    done: new Map(),
    rejected: new Map(),
    outbox: new Map(),
    read: new Map(),
    plan: undefined,
    plans: new Map(),
    late: [],
    live: '',
    templates: new Map(),
    approvals: new Map(),
    answered: new Map(),
    settings: undefined,
    drops: 0,
  };
  return open(name, contents, options);
}

function open(name: string, contents: Contents, options: MemoryOptions): MemoryStore {
  const { now = () => new Date(0), epoch = 1, work = `/nowhere/${name}/work` } = options;
  return {
    name,
    eventLog: memoryJournal(contents, now, epoch),
    snapshots: memorySnapshots(contents),
    blobs: memoryBlobs(contents),
    inbox: memoryInbox(contents),
    outbox: memoryOutbox(contents),
    plan: memoryPlan(contents),
    live: {
      begin: () => {
        contents.live = '';
      },
      write: (text) => {
        contents.live += text;
      },
      end: () => {},
    },
    calls: { pathOf: (call) => `/nowhere/${name}/tools/${call}`, list: async () => [], remove: async () => {} },
    templates: templatesFromSource({
      names: () => [...contents.templates.keys()].sort(),
      text: (name) => contents.templates.get(name),
    }),
    approvals: memoryApprovals(contents),
    work: async (sub) => (sub === undefined ? work : `${work}/${sub}`),
    files: async (paths, most) => paths.filter((path) => contents.made.has(path)).slice(0, most),
    image: async ({ path }) => contents.made.get(`work/${path}`),
    close: async () => {},
    hands: hands(name, contents, options),
  };
}

const copyOf = (contents: Contents): Contents => ({
  ...contents,
  lines: [...contents.lines],
  blobs: new Map(contents.blobs),
  inbox: new Map(contents.inbox),
  files: new Map(contents.files),
  uploads: new Set(contents.uploads),
  made: new Map(contents.made),
  done: new Map(contents.done),
  rejected: new Map(contents.rejected),
  outbox: new Map(contents.outbox),
  read: new Map(contents.read),
  plans: new Map(contents.plans),
  templates: new Map(contents.templates),
  approvals: new Map(contents.approvals),
  answered: new Map(contents.answered),
  late: [...contents.late],
});

function hands(name: string, contents: Contents, options: MemoryOptions): Hands {
  return {
    drop(file, content) {
      const count = ++contents.drops;
      const written = { ino: String(count), mtimeNs: BigInt(count), changed: count };
      contents.inbox.set(file, { bytes: Buffer.from(content), ...written });
    },
    putBack(from, to) {
      const file = contents.done.get(from);
      if (!file) throw new Error(`there is no done/${from}`);
      contents.inbox.set(to, { ...file, changed: ++contents.drops });
      contents.done.delete(from);
    },
    attach: (file, content = Buffer.from(file)) => {
      contents.files.set(file, content);
    },
    make: (path, content = new Uint8Array()) => {
      contents.made.set(path, content);
    },
    template: (file, content) => {
      contents.templates.set(file, content);
    },
    edit: (content) => {
      contents.plan = content;
    },
    deletePlan: () => {
      contents.plan = undefined;
    },
    planText: () => contents.plan,
    plans: () => contents.plans,
    replies: () => contents.outbox,
    approvals: () => contents.approvals,
    answered: () => contents.answered,
    saveApproval(id, text) {
      if (text === undefined) contents.approvals.delete(id);
      else contents.approvals.set(id, text);
    },
    saveSettings(text) {
      contents.settings = text;
    },
    settings: () => contents.settings,
    consume(file) {
      contents.read.set(file, contents.outbox.get(file) ?? '');
      contents.outbox.delete(file);
    },
    events: () => eventsOf(contents),
    lastEvent: () => eventsOf({ lines: contents.lines.slice(-1) }).at(-1),
    waiting: () => [...contents.inbox.keys()],
    done: () => [...contents.done.keys()],
    rejected: () => contents.rejected,
    uploads: () => [...contents.uploads],
    live: () => contents.live,
    restart({ powerCut = false } = {}) {
      // A copy: what the old daemon still does, were it alive, would be lost with it.
      const left = copyOf(contents);
      if (powerCut) left.lines.length = left.synced;
      return open(name, left, options);
    },
  };
}
