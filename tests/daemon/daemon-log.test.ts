import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openDaemonLog, rotatesWhenFull } from '../../src/daemon/host/daemon-log.ts';
import { setup } from '../support/agentctl.ts';

const logFile = () => {
  const folder = fs.mkdtempSync(join(tmpdir(), 'agentd-log-'));
  const path = join(folder, 'daemon.log');
  const fd = fs.openSync(path, 'a', 0o600);
  onTestFinished(() => {
    fs.closeSync(fd);
    fs.rmSync(folder, { recursive: true });
  });
  return { folder, path, fd };
};

test('a line of the log is a JSON object with the session, run and step it is about', () => {
  const lines: string[] = [];
  const log = openDaemonLog('info', '/nowhere/daemon.log', (line) => lines.push(line));
  log('debug', 'left out');
  log('warn', 'two\nlines', { session: 'demo', run: '1.md', step: 'step_2' });
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    { at: expect.any(String), level: 'warn', session: 'demo', run: '1.md', step: 'step_2', text: 'two\nlines' },
  ]);
  expect(lines.join('')).toMatch(/^[^\n]+\n$/);
});

test('a full log is put aside and emptied, three old ones are kept, and no line is lost on the way', () => {
  const { folder, path, fd } = logFile();
  const makeRoom = rotatesWhenFull(path, fd, 100);
  const lines = Array.from({ length: 20 }, (_, place) => `line ${String(place).padStart(2, '0')} ${'x'.repeat(31)}\n`);
  for (const line of lines) {
    makeRoom(line.length);
    fs.writeSync(fd, line);
  }
  const names = ['daemon.log.3', 'daemon.log.2', 'daemon.log.1', 'daemon.log'];
  expect(fs.readdirSync(folder).sort()).toEqual([...names].sort());
  const texts = names.map((name) => fs.readFileSync(join(folder, name), 'utf8'));
  expect(texts.join('')).toBe(lines.slice(-8).join(''));
  for (const text of texts) expect(text.length).toBeLessThanOrEqual(100);
  expect(fs.statSync(join(folder, 'daemon.log.1')).mode & 0o777).toBe(0o600);
});

test('a file that stderr does not write to, and one that cannot be put aside, stay as they are', () => {
  const { folder, path, fd } = logFile();
  fs.writeSync(fd, 'x'.repeat(200));
  const other = fs.openSync('/dev/null', 'a');
  rotatesWhenFull(path, other, 100)(50);
  fs.closeSync(other);
  expect(fs.readdirSync(folder)).toEqual(['daemon.log']);
  fs.mkdirSync(join(folder, 'daemon.log.1', 'in the way'), { recursive: true });
  fs.mkdirSync(join(folder, 'daemon.log.2', 'in the way'), { recursive: true });
  fs.mkdirSync(join(folder, 'daemon.log.3', 'in the way'), { recursive: true });
  rotatesWhenFull(path, fd, 100)(50);
  expect(fs.readFileSync(path, 'utf8')).toHaveLength(200);
});

test('the daemon rotates the log that agentctl start gave it', async () => {
  const { ctl, path } = setup();
  fs.mkdirSync(path('.agentd'), { recursive: true, mode: 0o700 });
  fs.writeFileSync(path('.agentd/daemon.log'), 'x'.repeat(8 * 1024 * 1024), { mode: 0o600 });
  expect(await ctl(['start', '--model', 'runbook'])).toMatchObject({ code: 0 });
  expect(fs.statSync(path('.agentd/daemon.log.1')).size).toBe(8 * 1024 * 1024);
  expect(JSON.parse(fs.readFileSync(path('.agentd/daemon.log'), 'utf8').split('\n')[0] ?? '')).toMatchObject({
    level: 'info',
  });
});
