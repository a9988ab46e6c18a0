import { expect, test } from 'vitest';
import { classifyReappearedDrop } from '../../src/core/session/session-messages.ts';

const identity = { ino: '7', mtime_ns: '100', sha256: 'a', ctime_ns: '200' };
const taken = { seq: 2, message: '1.md', ctime: '200' };
const found = { name: '1.md', identity };
const moved = { ...found, identity: { ...identity, ctime_ns: '300' } };
const open = { name: '1.md', isAnswered: false };
const answered = { name: '1.md', isAnswered: true };

test('a file with its name and its times never left the inbox', () => {
  expect(classifyReappearedDrop(taken, found, open)).toBe('left over');
  expect(classifyReappearedDrop(taken, found, undefined)).toBe('left over');
  expect(classifyReappearedDrop({ ...taken, name: 'x.md' }, { ...found, name: 'x.md' }, answered)).toBe('left over');
});

test('one that was moved is new where that is certain, else unclear', () => {
  expect(classifyReappearedDrop(taken, { ...moved, name: '2.md' }, answered)).toBe('new');
  expect(classifyReappearedDrop(taken, { ...moved, name: '2.md' }, open)).toBe('unclear');
  expect(classifyReappearedDrop(taken, moved, answered)).toBe('unclear');
  expect(classifyReappearedDrop(taken, { ...found, name: '2.md' }, answered)).toBe('new');
});

test('one that was made after the other was last changed is another file, whatever its name', () => {
  for (const message of [open, answered]) {
    expect(classifyReappearedDrop(taken, { ...moved, born: 201n }, message)).toBe('new');
    expect(classifyReappearedDrop(taken, { ...moved, born: 200n }, message)).toBe('unclear');
  }
});

test('one that was refused is judged again', () => {
  expect(classifyReappearedDrop(taken, moved, undefined)).toBe('new');
});
