import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openMcpPool } from '../../src/tools/index.ts';
import { createToolbox } from '../../src/tools/toolbox/toolbox.ts';
import { odd } from './mcp-setup.ts';
import { eventually, runs } from './tool-setup.ts';

/** Sessions with the odd server, of which so many may have theirs running. */
function sessions(most: number) {
  const root = mkdtempSync(join(tmpdir(), 'agentd-mcp-'));
  const pool = openMcpPool({ env: { PATH: process.env['PATH'] }, log: () => {}, most });
  onTestFinished(async () => {
    await pool.close();
    rmSync(root, { recursive: true, force: true });
  });
  const signal = new AbortController().signal;
  const context = { work: root, folder: join(root, 'call'), signal, blob: async () => undefined };
  /** As a worker does that was opened just now. */
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

test('a session has servers of its own, and keeps them while its worker comes and goes', async () => {
  const { pid, pool } = sessions(16);
  const [a, b] = [await pid('a'), await pid('b')];
  expect(a).not.toBe(b);
  expect(await pid('a')).toBe(a);
  await pool.close();
  expect([a, b].some(runs)).toBe(false);
});

test('where too many sessions have servers, those used longest ago are closed', async () => {
  const { pid } = sessions(2);
  const [a, b] = [await pid('a'), await pid('b')];
  await pid('a');
  const c = await pid('c');
  await eventually(() => !runs(b));
  expect([a, c].every(runs)).toBe(true);
  expect(await pid('b')).not.toBe(b);
});
