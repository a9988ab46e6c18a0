import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openWorkspace } from '../../src/store/index.ts';

// What the model-based tests and the soak found, cut down to its least.

test('of two who make a session at the same moment, the later one leaves nothing half-made behind', async () => {
  const root = mkdtempSync(join(tmpdir(), 'agentd-finds-'));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const workspace = openWorkspace(root, { now: () => new Date() });
  const both = await Promise.allSettled([workspace.create('demo'), workspace.create('demo')]);
  expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
  expect(readdirSync(workspace.paths.sessions)).toEqual(['demo']);
  expect(existsSync(join(workspace.paths.session('demo'), 'inbox'))).toBe(true);
});

test('what a session was about to record does not begin the record of one that is made again under its name', async () => {
  const root = mkdtempSync(join(tmpdir(), 'agentd-finds-'));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const workspace = openWorkspace(root, { now: () => new Date() });
  await workspace.create('demo');
  const old = workspace.session('demo');
  await old.journal.read(() => {});
  rmSync(workspace.paths.session('demo'), { recursive: true });
  await workspace.create('demo');
  const late = old.journal.append([{ type: 'session.opened', format: 1, key: 'demo' }]);
  await expect(late).rejects.toThrow('made again');
  expect(existsSync(join(workspace.paths.session('demo'), 'events.jsonl'))).toBe(false);
  await old.close();
});
