import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openApprovalPolls } from '../../src/daemon/watch/workspace-watch.ts';
import { workspacePaths } from '../../src/store/layout/layout.ts';

function waiting() {
  const root = mkdtempSync(join(tmpdir(), 'agentd-approvals-'));
  onTestFinished(() => rmSync(root, { recursive: true }));
  const paths = workspacePaths(root);
  const folder = join(paths.session('demo'), 'approvals');
  mkdirSync(folder, { recursive: true });
  const received: string[] = [];
  const polls = openApprovalPolls(paths, (name) => received.push(name));
  return { polls, received, folder, save: (text: string) => writeFileSync(join(folder, '1.json'), text) };
}

test('an answer saved before the first check is reported, and once only', () => {
  const { polls, received, save } = waiting();
  save('{ "decision": "allow" }');
  polls.check('demo');
  polls.check('demo');
  polls.poll();
  expect(received).toEqual(['demo']);
});

test('each save of an answer is reported at the next poll', () => {
  const { polls, received, save } = waiting();
  save('{}');
  polls.check('demo');
  save('{ "decision"');
  polls.poll();
  save('{ "decision": "deny" }');
  polls.poll();
  polls.poll();
  expect(received).toEqual(['demo', 'demo', 'demo']);
});

test('a session where nothing waits is reported once and polled no more', () => {
  const { polls, received, folder, save } = waiting();
  polls.check('demo');
  expect(received).toEqual([]);
  save('{}');
  polls.check('demo');
  rmSync(join(folder, '1.json'));
  polls.poll();
  save('{}');
  polls.poll();
  expect(received).toEqual(['demo', 'demo']);
});

test('a folder that cannot be read is reported once, and again when it can be read', () => {
  const { polls, received, folder, save } = waiting();
  save('{}');
  polls.check('demo');
  rmSync(folder, { recursive: true });
  writeFileSync(folder, 'a file in its place');
  polls.poll();
  polls.poll();
  expect(received).toEqual(['demo', 'demo']);
  rmSync(folder);
  mkdirSync(folder);
  save('{ "decision": "allow" }');
  polls.poll();
  expect(received).toEqual(['demo', 'demo', 'demo']);
});
