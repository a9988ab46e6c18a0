import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { test } from 'vitest';
import { setup } from '../support/agentctl.ts';
import { checkTranscript } from './transcript.ts';

test.each(['docs/first-task.md', 'docs/undo.md'])('the transcript of %s comes out as it is shown', (page) => {
  const { root, path } = setup();
  const bin = join(root, '..', 'bin');
  for (const folder of [root, bin]) mkdirSync(folder, { mode: 0o700 });
  const program = `#!/bin/sh\nexec '${process.execPath}' '${resolve('dist/agentctl.js')}' "$@"\n`;
  writeFileSync(join(bin, 'agentctl'), program);
  chmodSync(join(bin, 'agentctl'), 0o755);
  // Without a sandbox each command would wait for an approval.
  writeFileSync(path('agentd.json'), '{ "permissions": [{ "allow": "shell" }] }');
  checkTranscript(page, { AGENTD_WORKSPACE: root, PATH: `${bin}:${process.env['PATH']}` }, root);
});
