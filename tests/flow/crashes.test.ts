import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { innocents } from '../../scripts/soak/innocents.ts';
import { chanceOf } from '../sim/chance.ts';

test('sessions at work while the daemon is killed again and again are never blamed: all is answered once it is over', async () => {
  const base = mkdtempSync(join(tmpdir(), 'agentd-innocents-'));
  onTestFinished(() => rmSync(base, { recursive: true, force: true }));
  const plan = { sessions: 4, messages: 3, kills: 7, settleMs: 120_000 };
  const { wrong, done } = await innocents(base, plan, chanceOf(7));
  expect(wrong).toEqual([]);
  expect(done).toBe(12);
}, 240_000);
