import * as fs from 'node:fs';
import { openSessionWorker } from '../../src/engine/loop/worker.ts';
import type { ModelAnswer, SessionPorts } from '../../src/engine/ports/session-ports.ts';
import { resolveRules } from '../../src/protocol/settings/effective-settings.ts';
import { sessionTokens } from '../../src/store/event-log/log-writers.ts';
import { openSessionFolder } from '../../src/store/session/session-folder.ts';
import { memoryChildren } from '../../tests/support/memory-children.ts';
import { drop, FREE, makeSession, replied } from './contender.ts';

/** Iterations of one task; a long history is many of them. */
const TASK_ITERATIONS = 50;

/**
 * Gives a session a history of a number of iterations with outputs of a given size. Uses the real engine and store,
 * with a model and a tool in this process, so that event log, snapshots and compacted conversations are those of a
 * daemon. Only the syncs of the event log are left out.
 */
export async function makeHistory(
  workspace: string,
  name: string,
  iterations: number,
  output: number,
): Promise<string> {
  const session = makeSession(workspace, name);
  let left = iterations;
  const world = worldOf(session, 'x'.repeat(output), () => left-- > 0 && left % TASK_ITERATIONS > 0);
  let fault: unknown;
  const worker = await openSessionWorker(
    world,
    async () => resolveRules({ ...FREE, version: 1, sandbox: 'none' }),
    (error) => {
      fault = error;
    },
  );
  for (let task = 0; left > 0; task++) {
    drop(session, `past${task}`, `Task ${task}: go on until you are told to stop.`);
    worker.wake();
    await Promise.race([replied(session, `past${task}`), broken(() => fault)]);
  }
  await worker.stop(0);
  return session;
}

/** Rejects once there is a fault. */
async function broken(fault: () => unknown): Promise<never> {
  for (;;) {
    if (fault() !== undefined) throw fault();
    await new Promise((resolve) => setTimeout(resolve, 50).unref());
  }
}

/** Writes without syncing, since power cuts do not matter here. */
const unsynced = {
  write: (file: number, bytes: Uint8Array, offset: number) => fs.writeSync(file, bytes, offset),
  sync: async () => {},
};

/** Ports with a model that makes calls as long as `calls` is true, and a tool that always gives the same output. */
function worldOf(session: string, output: string, calls: () => boolean): SessionPorts {
  let asked = 0;
  const answer = (): ModelAnswer => ({
    text: '',
    calls: [],
    usage: { tokens: 1000, cost: null },
    model: 'bench',
    ...(calls()
      ? { calls: [{ id: `call_${asked++}`, name: 'read_file', args: JSON.stringify({ path: 'note.txt' }) }] }
      : { text: 'That was all.' }),
  });
  const now = () => new Date();
  return {
    store: openSessionFolder(session, sessionTokens().take('demo'), { now, disk: unsynced }),
    model: { ask: async () => answer() },
    tools: {
      specs: [],
      refresh: async () => [],
      replayPolicy: () => 'safe',
      checkPermission: async () => ({ is: 'allow' }),
      run: async () => ({ ok: true, text: output }),
      resume: async () => null,
      endLeftovers: async () => 'nothing',
    },
    createNonce: () => '0123456789ab',
    children: memoryChildren(),
    clock: {
      now,
      elapsed: () => performance.now(),
      after(ms, run) {
        const timer = setTimeout(run, ms);
        return () => clearTimeout(timer);
      },
    },
    runSemaphore: { acquire: async () => () => {} },
    owner: { check() {} },
    diskCapacity: () => 'ok',
    log: () => {},
  };
}
