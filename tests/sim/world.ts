import type { SessionPorts } from '../../src/engine/ports/session-ports.ts';
import { type Model, type ModelAnswer, ModelError } from '../../src/engine/ports/session-ports.ts';
import type { SessionStore } from '../../src/engine/ports/store-ports.ts';
import type { Toolbox, ToolResult } from '../../src/engine/ports/tool-ports.ts';
import { DiskError } from '../../src/store/fs/store-errors.ts';
import { memoryChildren } from '../support/memory-children.ts';
import type { MemoryStore } from '../support/memory-store.ts';
import type { Chance } from './chance.ts';
import type { Gates } from './gates.ts';
import { moveOf } from './model.ts';
import { type Album, developed, untrue } from './snapshots.ts';

/** What happened outside and cannot be taken back, over all lives of the daemon. */
export type Outside = {
  /** How often each command with these arguments began. */
  ran: Map<string, number>;
  /** What became of each command, by the folder of its call, where a daemon died while it ran: nobody may ever know. */
  commands: Map<string, Command>;
  /** Saves of people that the daemon moved away: `plans/history/`. */
  history: string[];
  /** Errors of the disk that were made on purpose. */
  made: Set<unknown>;
  album: Album;
  /** What was wrong with snapshots. */
  untrue: string[];
};

/** A command that began. `fate` is settled once, by whoever looks first: its supervisor is gone, or knows its result. */
export type Command = { ends: ToolResult; fate?: 'unknown' | 'ended' | 'runs' };

export type Timers = { now(): Date; elapsed(): number; after(ms: number, run: () => void): () => void };

export type Setting = {
  chance: Chance;
  outside: Outside;
  timers: Timers;
  /** Once true, nothing goes wrong any more: the model finishes what is open, commands succeed, the disk is well. */
  isCalm: () => boolean;
  /** One in so many steps of the disk fails; 0: none. */
  diskFaults: number;
  /** One in so many steps of the disk is a place where something else may come in between. */
  grain: number;
};

/** The ports of one life of the daemon: those of the store in memory, each step of them held at a gate. */
export function worldOf(store: MemoryStore, gates: Gates, setting: Setting): SessionPorts {
  return {
    store: gatedStore(store, gates, setting),
    model: gatedModel(gates, setting),
    tools: gatedTools(gates, setting),
    children: memoryChildren(),
    clock: setting.timers,
    runSemaphore: {
      async acquire(_since, signal) {
        await gates.pass('a place', 'port', signal);
        return () => {};
      },
    },
    owner: { check() {} },
    diskCapacity: () => 'ok',
    createNonce: () => 'a1b2c3d4e5f6',
    log: () => {},
  };
}

function gatedStore(store: MemoryStore, gates: Gates, setting: Setting): SessionStore {
  const { chance, outside } = setting;
  let poison: unknown;
  let steps = 0;
  const failing = (what: string) => {
    if (setting.isCalm() || setting.diskFaults === 0 || !chance.oneIn(setting.diskFaults)) return;
    const error = new DiskError('EIO', `made on purpose at ${what}`);
    outside.made.add(error);
    if (what === 'sync') poison = error;
    throw error;
  };
  /** A crash may come before the step or after it, and an error in its place. */
  const step = async <T>(what: string, job: () => Promise<T>): Promise<T> => {
    // Now and then in any case, so that a worker that is never idle is seen to go on and on.
    if (++steps % ALWAYS === 0 || chance.oneIn(setting.grain)) await gates.pass(what);
    failing(what);
    const result = await job();
    if (chance.oneIn(setting.grain + 1)) await gates.pass(`after ${what}`);
    return result;
  };
  const unpoisoned = <T>(what: string, job: () => Promise<T>) =>
    step(what, () => {
      if (poison) throw poison;
      return job();
    });
  const { eventLog, snapshots, blobs, inbox, outbox, plan, hands } = store;
  const keepingSaves = async <T>(job: () => Promise<T>): Promise<T> => {
    const before = hands.planText();
    const result = await job();
    if (before !== undefined && before !== hands.planText()) outside.history.push(before);
    return result;
  };
  return {
    ...store,
    eventLog: {
      read: (each, from) => step('read', () => eventLog.read(each, from)),
      listCuts: () => eventLog.listCuts(),
      position: () => eventLog.position(),
      append: (bodies) => unpoisoned('append', () => eventLog.append(bodies)),
      sync: () => unpoisoned('sync', () => eventLog.sync()),
    },
    snapshots: {
      load: () => step('snapshot', () => developed(store, outside.album, chance)),
      save: (mark, state) =>
        step('snapshot', async () => {
          outside.untrue.push(...untrue(store, mark, state));
          outside.album.push({ mark, state: JSON.parse(JSON.stringify(state)) });
          await snapshots.save(mark, state);
        }),
    },
    blobs: { put: (text) => step('blob', () => blobs.put(text)), get: (hash) => blobs.get(hash) },
    inbox: {
      listReady: (wanted) => step('look', () => inbox.listReady(wanted)),
      placeAttachments: (attachments) => inbox.placeAttachments(attachments),
      moveToDone: (drop, seq, attachments) => step('settle', () => inbox.moveToDone(drop, seq, attachments)),
      reject: (drop, why) => step('refuse', () => inbox.reject(drop, why)),
    },
    outbox: {
      isReserved: (name) => outbox.isReserved(name),
      publish: (name, content) => step('publish', () => outbox.publish(name, content)),
      restore: (name) => step('publish', () => outbox.restore(name)),
      republish: (name, content) => step('publish', () => outbox.republish(name, content)),
    },
    plan: {
      detectEdits: () => step('plan look', () => plan.detectEdits()),
      sync: () => step('plan keep', () => plan.sync()),
      markSeen: (bytes) => plan.markSeen(bytes),
      sha256: (bytes) => plan.sha256(bytes),
      write: (content) => step('plan write', () => keepingSaves(() => plan.write(content))),
      setAside: () => step('set aside', () => plan.setAside()),
      archive: (...plans) => step('archive', () => keepingSaves(() => plan.archive(...plans))),
    },
  };
}

/** Every so many steps of the disk there is a gate, however coarse the grain. */
const ALWAYS = 50;

let answers = 0;

function gatedModel(gates: Gates, { chance, isCalm }: Setting): Model {
  return {
    async ask(_request, { signal, onText }): Promise<ModelAnswer> {
      await gates.pass('the model', 'model', signal);
      const move = moveOf(chance, isCalm());
      if ('fault' in move) throw new ModelError(...move.fault);
      onText(move.text);
      const id = ++answers;
      const calls = move.calls.map((call, place) => ({ id: `c${id}_${place}`, ...call }));
      return { text: move.text, calls, usage: { tokens: 10, cost: null }, model: 'simulated' };
    },
  };
}

function gatedTools(gates: Gates, { chance, isCalm, outside }: Setting): Toolbox {
  const endOf = (args: string): ToolResult => {
    const ok = isCalm() || !chance.oneIn(4);
    return { ok, text: chance.oneIn(12) ? 'a long line of output\n'.repeat(2000) : `exit ${ok ? 0 : 1} ${args}` };
  };
  return {
    specs: [],
    refresh: async () => [],
    checkPermission: async () => ({ is: 'allow' }),
    replayPolicy: (name) => (name === 'read_file' ? 'safe' : 'never'),
    async run({ name, args }, { folder, signal }) {
      const ends = endOf(args);
      if (name === 'shell') {
        outside.ran.set(args, (outside.ran.get(args) ?? 0) + 1);
        outside.commands.set(folder, { ends });
      }
      await gates.pass('a command', 'tool', signal);
      return ends;
    },
    async resume(_call, { folder, signal }) {
      const command = outside.commands.get(folder);
      if (!command) return null;
      command.fate ??= chance.of(['unknown', 'ended', 'runs']);
      if (command.fate === 'unknown') return null;
      if (command.fate === 'runs') await gates.pass('a command', 'tool', signal);
      command.fate = 'ended';
      return command.ends;
    },
    endLeftovers: async () => 'nothing',
  };
}
