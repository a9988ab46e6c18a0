import { mkdirSync, mkdtempSync, rmSync, watch, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openApprovalWatches } from '../../src/daemon/watch/approval-watches.ts';
import { openFolderWatches } from '../../src/daemon/watch/folder-watches.ts';
import { workspacePaths } from '../../src/store/layout/layout.ts';

test('an answer saved before there was a watch is looked at once there is one, and once only', () => {
  const root = mkdtempSync(join(tmpdir(), 'agentd-approvals-'));
  onTestFinished(() => rmSync(root, { recursive: true }));
  const paths = workspacePaths(root);
  mkdirSync(join(paths.session('demo'), 'approvals'), { recursive: true });
  writeFileSync(join(paths.session('demo'), 'approvals', '1.json'), '{ "decision": "allow" }');
  const nothing = () => undefined;
  const watches = openFolderWatches({ watch, local: true, onEvent: nothing, onFailed: nothing, say: nothing });
  const heard: string[] = [];
  const approvals = openApprovalWatches({ paths, watches, heard: (name) => heard.push(name) });
  approvals.check('demo');
  approvals.check('demo');
  approvals.close();
  expect(heard).toEqual(['demo']);
});
