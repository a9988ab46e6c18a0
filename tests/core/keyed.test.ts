import { expect, test } from 'vitest';
import { emptyMap, mapGet, mapSet, type PersistentMap } from '../../src/base/collections.ts';
import { freeReplyName } from '../../src/core/messages/replies.ts';
import fc from '../support/property.ts';

const filled = (keys: string[]) => keys.reduce((all, key, n) => mapSet(all, key, n), emptyMap<number>());

test('every version keeps what it held, whatever is added to it afterwards', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ maxLength: 3 }), { maxLength: 200 }), fc.nat(199), (keys, at) => {
      const early = filled(keys.slice(0, at));
      const known = new Map(keys.slice(0, at).map((key, n) => [key, n]));
      const late = keys.slice(at).reduce((all, key) => mapSet(all, key, -1), early);
      for (const key of keys) expect(mapGet(early, key)).toBe(known.get(key));
      for (const key of keys.slice(at)) expect(mapGet(late, key)).toBe(-1);
      expect([early.size, late.size]).toEqual([known.size, new Set(keys).size]);
    }),
  );
});

test('names that an object has of itself are keys like any other', () => {
  const none = emptyMap<number>();
  const one = mapSet(none, '__proto__', 1);
  expect([mapGet(none, '__proto__'), mapGet(none, 'constructor'), mapGet(one, '__proto__')]).toEqual([
    undefined,
    undefined,
    1,
  ]);
});

test('ten thousand entries outlive JSON', () => {
  const keys = Array.from({ length: 10_000 }, (_, n) => `message-${n}.md`);
  const back = JSON.parse(JSON.stringify(filled(keys))) as PersistentMap<number>;
  expect(keys.every((key, n) => mapGet(back, key) === n)).toBe(true);
  expect(mapGet(mapSet(back, 'one-more', 1), 'one-more')).toBe(1);
});

test('a name that was used ten thousand times gets the next number after a few questions', () => {
  let asked = 0;
  const taken = (name: string) => {
    asked++;
    const n = /^1-(\d+)\.md$/.exec(name)?.[1];
    return name === '1.md' || (n !== undefined && Number(n) <= 10_000);
  };
  expect(freeReplyName('1.md', taken)).toBe('1-10001.md');
  expect(asked).toBeLessThan(40);
});
