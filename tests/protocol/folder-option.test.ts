import fc from 'fast-check';
import { expect, test } from 'vitest';
import { MessageOptions } from '../../src/protocol/session/message.ts';
import { sessionFolder } from '../../src/protocol/workspace/session-names.ts';

const accepts = (folder: string): boolean => MessageOptions.safeParse({ folder }).success;

/** What Linux takes as one name: any bytes but "/" and NUL, at most 255 of them. A dot at the start is for the system's own. */
const plainName = fc
  .string({
    unit: fc.oneof(fc.constantFrom(...'0123456789\\ -_.~\n\'"用é'), fc.string({ unit: 'grapheme', maxLength: 1 })),
  })
  .filter((name) => name !== '' && !/^\.|[/\u0000]/u.test(name) && Buffer.byteLength(name) <= 255);

test('every name the file system takes is a folder for a run', () => {
  fc.assert(
    fc.property(plainName, (name) => {
      expect(accepts(name), JSON.stringify(name)).toBe(true);
    }),
    { numRuns: 2000, examples: [['report-2026'], ['0'], ['step_10'], ['a\\b']] },
  );
});

test('the folder of a child session is accepted, whatever its step is called', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 80 }), (id) => {
      expect(accepts(sessionFolder(id)), sessionFolder(id)).toBe(true);
    }),
    { numRuns: 2000, examples: [['step_10'], ['2026']] },
  );
});

test('a name that leads elsewhere or hides is refused', () => {
  for (const name of ['', '.', '..', '.hidden', 'a/b', '/a', 'a/', 'a\u0000b', '\u0000'])
    expect(accepts(name), name).toBe(false);
});
