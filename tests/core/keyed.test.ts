import { expect, test } from 'vitest';
import { freeName } from '../../src/core/ids.ts';
import { entryOf, type Keyed, keyed, withValue } from '../../src/core/keyed.ts';
import fc from '../support/property.ts';

const filled = (keys: string[]) => keys.reduce((all, key, n) => withValue(all, key, n), keyed<number>());

test('every version keeps what it held, whatever is added to it afterwards', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ maxLength: 3 }), { maxLength: 200 }), fc.nat(199), (keys, at) => {
      const early = filled(keys.slice(0, at));
      const known = new Map(keys.slice(0, at).map((key, n) => [key, n]));
      const late = keys.slice(at).reduce((all, key) => withValue(all, key, -1), early);
      for (const key of keys) expect(entryOf(early, key)).toBe(known.get(key));
      for (const key of keys.slice(at)) expect(entryOf(late, key)).toBe(-1);
      expect([early.size, late.size]).toEqual([known.size, new Set(keys).size]);
    }),
  );
});

test('names that an object has of itself are keys like any other', () => {
  const none = keyed<number>();
  const one = withValue(none, '__proto__', 1);
  expect([entryOf(none, '__proto__'), entryOf(none, 'constructor'), entryOf(one, '__proto__')]).toEqual([
    undefined,
    undefined,
    1,
  ]);
});

test('ten thousand entries outlive JSON', () => {
  const keys = Array.from({ length: 10_000 }, (_, n) => `message-${n}.md`);
  const back = JSON.parse(JSON.stringify(filled(keys))) as Keyed<number>;
  expect(keys.every((key, n) => entryOf(back, key) === n)).toBe(true);
  expect(entryOf(withValue(back, 'one-more', 1), 'one-more')).toBe(1);
});

test('a name that was used ten thousand times gets the next number after a few questions', () => {
  let asked = 0;
  const taken = (name: string) => {
    asked++;
    const n = /^1-(\d+)\.md$/.exec(name)?.[1];
    return name === '1.md' || (n !== undefined && Number(n) <= 10_000);
  };
  expect(freeName('1.md', taken)).toBe('1-10001.md');
  expect(asked).toBeLessThan(40);
});
