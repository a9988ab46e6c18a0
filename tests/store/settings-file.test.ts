import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { ifThere } from '../../src/store/errors.ts';
import { checkSettings, lastGoodAt, settingsFile } from '../../src/store/index.ts';

const DENY = '{ "permissions": [{ "deny": "shell" }] }';
const ASK = '{ "permissions": [{ "ask": "shell" }] }';
const BROKEN = '{ "permissions": [{ "deny": "shell" }],, }';

/** One `session.json`; `open` is a daemon that looks at it for the first time. */
function place() {
  const folder = mkdtempSync(join(tmpdir(), 'agentd-settings-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, 'session.json');
  const copy = join(folder, 'session.last-good.json');
  const at = { ms: 0 };
  const logged: string[] = [];
  const open = () =>
    settingsFile({
      label: 'session.json',
      read: () => ifThere(() => readFileSync(path, 'utf8')),
      check: (text) => checkSettings(text, 'session.json'),
      none: {},
      copy: lastGoodAt(copy),
      learn: () => {},
      clock: { now: () => new Date(at.ms), elapsed: () => at.ms },
      log: (_, text) => logged.push(text),
    });
  return {
    ...{ at, logged, open, copy },
    save: (text: string) => writeFileSync(path, text),
    remove: () => rmSync(path),
    kept: () => ifThere(() => readFileSync(copy, 'utf8')),
  };
}

const deny = { permissions: [{ deny: 'shell' }] };

test('no file means no settings, and nothing is kept', () => {
  const { open, kept, logged } = place();
  expect(open().look()).toEqual({ value: {}, from: 'file', fault: null, warnings: [], since: null });
  expect([kept(), logged]).toEqual([undefined, []]);
});

test('a file that breaks leaves what held last in force, in this daemon and in the next', () => {
  const { open, save, kept, logged } = place();
  save(DENY);
  const file = open();
  expect(file.look()).toMatchObject({ value: deny, from: 'file', fault: null });
  expect(kept()).toBe(DENY);
  save(BROKEN);
  const broken = { value: deny, from: 'last good', fault: expect.stringContaining('line 1, column 40') };
  expect(file.look()).toMatchObject(broken);
  expect(file.unsettled).toBe(true);
  expect(open().look()).toMatchObject(broken);
  expect(kept()).toBe(DENY);
  expect(logged.join('\n')).toContain('the settings that held last are in force');
});

test('a file that never held leaves nothing to go by, until it holds', () => {
  const { open, save, logged } = place();
  save(BROKEN);
  const file = open();
  expect(file.look()).toMatchObject({ value: {}, from: 'nothing', fault: expect.stringContaining('is not JSON') });
  expect(open().look().from).toBe('nothing');
  save(DENY);
  expect(file.look()).toMatchObject({ value: deny, from: 'file', fault: null });
  expect(file.unsettled).toBe(false);
  expect(logged.at(-1)).toBe('session.json: changed, and in force from now on');
});

test('a file that appears broken where there was none is nothing to go by either', () => {
  const { open, save } = place();
  const file = open();
  expect(file.look().from).toBe('file');
  save(BROKEN);
  expect(file.look().from).toBe('nothing');
});

test('an empty file, as it is while somebody saves in place, is one that does not hold', () => {
  const { open, save } = place();
  save(DENY);
  const file = open();
  file.look();
  save('');
  expect(file.look()).toMatchObject({ value: deny, from: 'last good' });
  save(ASK);
  expect(file.look()).toMatchObject({ value: { permissions: [{ ask: 'shell' }] }, from: 'file', fault: null });
});

test('a file that is away for a moment is not gone; one that stays away is, with its copy', () => {
  const { open, save, remove, at, kept, logged } = place();
  save(DENY);
  const file = open();
  file.look();
  remove();
  expect(file.look()).toMatchObject({ value: deny });
  expect(file.unsettled).toBe(true);
  // A daemon that begins in this moment knows no better.
  expect(open().look()).toMatchObject({ value: deny });
  at.ms += 500;
  save(ASK);
  expect(file.look()).toMatchObject({ value: { permissions: [{ ask: 'shell' }] } });
  remove();
  file.look();
  at.ms += 1500;
  expect(file.look()).toMatchObject({ value: {}, from: 'file', since: null });
  expect([kept(), file.unsettled]).toEqual([undefined, false]);
  expect(logged.at(-1)).toBe('session.json: is gone, and holds no longer');
});

test('a change is said once, also one that was made while no daemon ran', () => {
  const { open, save, logged } = place();
  save(DENY);
  const file = open();
  file.look();
  file.look();
  expect(logged).toEqual([]);
  save(ASK);
  file.look();
  file.look();
  expect(logged).toEqual(['session.json: changed, and in force from now on']);
  save(DENY);
  open().look();
  expect(logged).toHaveLength(2);
  open().look();
  expect(logged).toHaveLength(2);
});

test('a fault is said once, until it is another one', () => {
  const { open, save, logged } = place();
  save(BROKEN);
  const file = open();
  for (let n = 0; n < 3; n++) file.look();
  expect(logged).toHaveLength(1);
  save('[]');
  file.look();
  file.look();
  expect(logged).toHaveLength(2);
});

test('a copy that holds no more by today’s rules is none', () => {
  const { open, save, copy } = place();
  writeFileSync(copy, '{ "sandbox": "moat" }');
  save(BROKEN);
  expect(open().look().from).toBe('nothing');
});

test.each([
  ['a key twice', '{ "permissions": [{ "deny": "shell" }], "permissions": [] }'],
  ['an unknown key', '{ "perms": [] }'],
])('%s drops no protection, also after a restart: what held last is in force', (_, text) => {
  const { open, save, logged } = place();
  save(DENY);
  const file = open();
  file.look();
  save(text);
  for (const one of [file, open()])
    expect(one.look()).toMatchObject({
      value: deny,
      from: 'last good',
      fault: expect.stringMatching(/line 1, column \d+/),
    });
  expect(logged.at(-1)).toContain('the settings that held last are in force');
});
