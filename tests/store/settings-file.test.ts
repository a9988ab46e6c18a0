import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ifExists } from '../../src/store/fs/store-errors.ts';
import { checkSettings, hotReloadSettings } from '../../src/store/index.ts';
import { temporaryFolder } from '../support/temporary.ts';

const DENY = '{ "permissions": [{ "deny": "shell" }] }';
const ASK = '{ "permissions": [{ "ask": "shell" }] }';
const BROKEN = '{ "permissions": [{ "deny": "shell" }],, }';

/** One `session.json`; `open` is a daemon that reads it for the first time. */
function place() {
  const folder = temporaryFolder('settings');
  const path = join(folder, 'session.json');
  const at = { ms: 0 };
  const logged: string[] = [];
  const open = () =>
    hotReloadSettings({
      label: 'session.json',
      read: () => ifExists(() => readFileSync(path, 'utf8')),
      check: (text) => checkSettings(text, 'session.json'),
      defaults: {},
      beforeApply: () => {},
      clock: { now: () => new Date(at.ms), elapsed: () => at.ms },
      log: (_, text) => logged.push(text),
    });
  return {
    ...{ at, logged, open },
    save: (text: string) => writeFileSync(path, text),
    remove: () => rmSync(path),
    files: () => readdirSync(folder),
  };
}

const deny = { permissions: [{ deny: 'shell' }] };

test('no file means no settings', () => {
  const { open, logged } = place();
  expect(open().reload()).toEqual({ value: {}, from: 'file', fault: null, warnings: [], since: null });
  expect(logged).toEqual([]);
});

test('a file that becomes invalid leaves its last valid version in force; the next daemon has no settings', () => {
  const { at, open, save, files, logged } = place();
  at.ms = 5000;
  save(DENY);
  const file = open();
  const since = '1970-01-01T00:00:05.000Z';
  expect(file.reload()).toMatchObject({ value: deny, from: 'file', fault: null, since });
  at.ms = 9000;
  save(BROKEN);
  const broken = { value: deny, from: 'last good', fault: expect.stringContaining('line 1, column 40'), since };
  expect(file.reload()).toMatchObject(broken);
  expect(file.needsReload).toBe(true);
  expect(logged.join('\n')).toContain('the last valid settings remain in force');
  expect(open().reload()).toMatchObject({ value: {}, from: 'nothing', fault: broken.fault, since: null });
  expect(files()).toEqual(['session.json']);
});

test('a file that was never valid gives no settings until it is valid', () => {
  const { open, save, logged } = place();
  save(BROKEN);
  const file = open();
  expect(file.reload()).toMatchObject({ value: {}, from: 'nothing', fault: expect.stringContaining('is not JSON') });
  expect(open().reload().from).toBe('nothing');
  save(DENY);
  expect(file.reload()).toMatchObject({ value: deny, from: 'file', fault: null });
  expect(file.needsReload).toBe(false);
  expect(logged.at(-1)).toBe('session.json: changed; the new settings are in force');
});

test('a new file that is invalid gives no settings either', () => {
  const { open, save } = place();
  const file = open();
  expect(file.reload().from).toBe('file');
  save(BROKEN);
  expect(file.reload().from).toBe('nothing');
});

test('an empty file, as during a save in place, is invalid', () => {
  const { open, save } = place();
  save(DENY);
  const file = open();
  file.reload();
  save('');
  expect(file.reload()).toMatchObject({ value: deny, from: 'last good' });
  save(ASK);
  expect(file.reload()).toMatchObject({ value: { permissions: [{ ask: 'shell' }] }, from: 'file', fault: null });
});

test('a file that is missing for a moment is not removed; one that stays missing is', () => {
  const { open, save, remove, at, logged } = place();
  save(DENY);
  const file = open();
  file.reload();
  remove();
  expect(file.reload()).toMatchObject({ value: deny });
  expect(file.needsReload).toBe(true);
  at.ms += 500;
  save(ASK);
  expect(file.reload()).toMatchObject({ value: { permissions: [{ ask: 'shell' }] } });
  remove();
  file.reload();
  at.ms += 1500;
  expect(file.reload()).toMatchObject({ value: {}, from: 'file', since: null });
  expect(file.needsReload).toBe(false);
  expect(logged.at(-1)).toBe('session.json: removed; its settings no longer apply');
});

test('a change is reported once', () => {
  const { open, save, logged } = place();
  save(DENY);
  const file = open();
  file.reload();
  file.reload();
  expect(logged).toEqual([]);
  save(ASK);
  file.reload();
  file.reload();
  expect(logged).toEqual(['session.json: changed; the new settings are in force']);
  // For a daemon that starts, nothing has changed.
  open().reload();
  expect(logged).toHaveLength(1);
});

test('a fault is reported once, until it changes', () => {
  const { open, save, logged } = place();
  save(BROKEN);
  const file = open();
  for (let n = 0; n < 3; n++) file.reload();
  expect(logged).toHaveLength(1);
  save('[]');
  file.reload();
  file.reload();
  expect(logged).toHaveLength(2);
});

test.each([
  ['a key twice', '{ "permissions": [{ "deny": "shell" }], "permissions": [] }'],
  ['an unknown key', '{ "perms": [] }'],
])('%s drops no protection: what held last is in force, and after a restart nothing is', (_, text) => {
  const { open, save, logged } = place();
  save(DENY);
  const file = open();
  file.reload();
  save(text);
  const fault = expect.stringMatching(/line 1, column \d+/);
  expect(file.reload()).toMatchObject({ value: deny, from: 'last good', fault });
  expect(logged.at(-1)).toContain('the last valid settings remain in force');
  expect(open().reload()).toMatchObject({ from: 'nothing', fault });
});
