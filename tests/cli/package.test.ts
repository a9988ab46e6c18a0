import { execFile } from 'node:child_process';
import * as fs from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../support/temporary.ts';

const run = promisify(execFile);

test('the package by itself runs a task, tells of which commit it is, and what the browser tool lacks', async () => {
  const { folder, agentctl, files } = await installed();
  expect(files.filter((name) => name.endsWith('.map'))).toEqual([]);
  expect(await agentctl('--version')).toMatch(/^\d+\.\d+\.\d+ \([0-9a-f]{10}\+?, \d{4}-\d\d-\d\d\)\n$/);
  await agentctl('start', '--model', 'runbook');
  try {
    const task = '1. Write two lines: `printf "tea\\nmilk\\n" > list.txt`\n2. Count them: `wc -l < list.txt`';
    expect(await agentctl('send', 'demo', task, '--wait')).toContain('All 2 steps are done');
  } finally {
    await agentctl('stop');
  }
  const chromium = join(folder, 'chromium');
  fs.writeFileSync(chromium, '#!/bin/sh\n', { mode: 0o700 });
  const settings = { browser: { executable: chromium }, sandbox: { mode: 'off' } };
  fs.writeFileSync(join(folder, 'ws', 'agentd.json'), JSON.stringify(settings));
  const checks = await agentctl('doctor', '--model', 'runbook', '--json').catch((error) => String(error.stdout));
  expect(checks).toContain('npm install -g playwright-core');
});

/** The tarball of `npm pack`, unpacked in an empty folder beside the only package it depends on. */
async function installed() {
  const folder = temporaryFolder('package');
  await run('npm', ['pack', '--ignore-scripts', '--pack-destination', folder]);
  const [tarball = ''] = fs.readdirSync(folder);
  await run('tar', ['xzf', tarball], { cwd: folder });
  fs.mkdirSync(join(folder, 'package/node_modules'));
  fs.cpSync(resolve('node_modules/zod'), join(folder, 'package/node_modules/zod'), { recursive: true });
  const program = join(folder, 'package/dist/agentctl.js');
  const env = { PATH: process.env['PATH'], HOME: folder, AGENTD_WORKSPACE: join(folder, 'ws') };
  return {
    folder,
    files: fs.readdirSync(join(folder, 'package'), { recursive: true, encoding: 'utf8' }),
    agentctl: async (...words: string[]) => (await run(process.execPath, [program, ...words], { env })).stdout,
  };
}
