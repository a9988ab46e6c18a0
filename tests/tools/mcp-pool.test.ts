import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { UserError } from '../../src/base/user-error.ts';
import { openMcpPool } from '../../src/tools/index.ts';
import { createToolbox } from '../../src/tools/toolbox/toolbox.ts';
import { odd } from './mcp-setup.ts';
import { eventually, runs } from './tool-setup.ts';

/** Sessions with the misbehaving server; at most a given number may have running servers. */
function sessions(most: number) {
  const root = mkdtempSync(join(tmpdir(), 'agentd-mcp-'));
  const pool = openMcpPool({ env: { PATH: process.env['PATH'] }, log: () => {}, most });
  onTestFinished(async () => {
    await pool.close();
    rmSync(root, { recursive: true, force: true });
  });
  const signal = new AbortController().signal;
  const context = { work: root, folder: join(root, 'call'), signal, blob: async () => undefined };
  /** Acts like a worker that was just opened. */
  const pid = async (name: string) => {
    const box = createToolbox(
      [],
      pool.toolsFor(name, () => ({ odd: odd() })),
      () => ({ mode: 'auto', session: [], workspace: [] }),
    );
    return Number((await box.run({ name: 'mcp__odd__pid', args: '{}' }, context)).text);
  };
  return { pool, pid };
}

test('a session has its own servers, and keeps them across workers', async () => {
  const { pid, pool } = sessions(16);
  const [a, b] = [await pid('a'), await pid('b')];
  expect(a).not.toBe(b);
  expect(await pid('a')).toBe(a);
  await pool.close();
  expect([a, b].some(runs)).toBe(false);
});

test('if too many sessions have servers, the least recently used are closed', async () => {
  const { pid } = sessions(2);
  const [a, b] = [await pid('a'), await pid('b')];
  await pid('a');
  const c = await pid('c');
  await eventually(() => !runs(b));
  expect([a, c].every(runs)).toBe(true);
  expect(await pid('b')).not.toBe(b);
});

test('a server that is closed while it cannot be opened fails whoever opens it, and nothing else', async () => {
  const { pool } = sessions(1);
  const signal = new AbortController().signal;
  let fail = (_: Error): void => undefined;
  const noFolder = new Promise<string>((_, reject) => {
    fail = reject;
  });
  const [a, b] = ['a', 'b'].map((name) => pool.toolsFor(name, () => ({ odd: odd() })));
  const opened = a?.ready({ work: () => noFolder, signal });
  await b?.ready({ work: async () => tmpdir(), signal });
  fail(new Error('work/ is a file'));
  await expect(opened).rejects.toThrow('work/ is a file');
  await new Promise(setImmediate);
});

test('a session that is opened again has its servers started by the sandbox settings it has then', async () => {
  const modes: string[] = [];
  const work = mkdtempSync(join(tmpdir(), 'agentd-mcp-'));
  const pool = openMcpPool({
    env: { PATH: process.env['PATH'] },
    log: () => {},
    sandbox: {
      statusFor: () => ({ is: 'off' }) as never,
      wrapCommand: async () => null,
      async prepareServer(_server, mode) {
        modes.push(mode);
        throw new UserError('not started');
      },
    },
  });
  onTestFinished(async () => {
    await pool.close();
    rmSync(work, { recursive: true, force: true });
  });
  const open = async (mode: 'auto' | 'require') => {
    const tools = pool.toolsFor(
      'a',
      () => ({ odd: odd() }),
      () => ({ mode, network: false }) as never,
    );
    await tools.ready({ work: async () => work, signal: new AbortController().signal }).catch(() => undefined);
  };
  await open('auto');
  await open('require');
  expect(modes).toEqual(['auto', 'require']);
});

test('a server knows its session, also outside the sandbox, where nothing else may lead to a session', async () => {
  const started: Array<Record<string, string>> = [];
  const folderOf = (name: string) => join(tmpdir(), 'ws/.sessions', name);
  const pool = openMcpPool({
    ...{ env: { PATH: '/usr/bin:/bin', HOME: '/nowhere', AGENTD_SESSION: 'outer' }, log: () => {}, folderOf },
    sandbox: {
      statusFor: () => ({ is: 'off' }) as never,
      wrapCommand: async () => null,
      async prepareServer({ env }) {
        started.push(env);
        throw new UserError('not started');
      },
    },
  });
  onTestFinished(pool.close);
  const ready = async (args: string[]) => {
    const tools = pool.toolsFor('a', () => ({ odd: { ...odd(), read: undefined, sandbox: 'none', args } }));
    return tools.ready({ work: async () => tmpdir(), signal: new AbortController().signal });
  };
  expect(await ready([])).toEqual([expect.stringContaining('not started')]);
  expect(started).toMatchObject([{ AGENTD_SESSION: 'a', AGENTD_SESSION_FOLDER: folderOf('a') }]);
  expect(await ready(['$AGENTD_SESSION_FOLDER/work/run.js'])).toEqual([expect.stringContaining("a session's folder")]);
});
