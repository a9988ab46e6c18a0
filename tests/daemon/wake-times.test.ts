import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { realClock } from '../../src/daemon/host/clock.ts';
import { createWakeTimes } from '../../src/daemon/host/session-host.ts';

const DAY_MS = 86_400_000;

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }));
afterEach(() => void vi.useRealTimers());

/** Wake times by the real clock, and what was woken after how many ms. */
function wakeTimes() {
  const began = performance.now();
  const woken: Array<[name: string, ms: number]> = [];
  const times = createWakeTimes(realClock, (name) => woken.push([name, performance.now() - began]));
  return { times, woken };
}

test('a session is woken once, when its time has come and not before', async () => {
  const { times, woken } = wakeTimes();
  times.set('demo', 5000);
  await vi.advanceTimersByTimeAsync(4999);
  expect(woken).toEqual([]);
  await vi.advanceTimersByTimeAsync(DAY_MS);
  expect(woken).toEqual([['demo', 5000]]);
});

test('the soonest is woken first, whichever was set first, and the later ones in their turn', async () => {
  const { times, woken } = wakeTimes();
  for (const [name, ms] of [
    ['second', 2000],
    ['third', 3000],
    ['first', 1000],
    ['with the third', 3000],
  ] as const)
    times.set(name, ms);
  expect(vi.getTimerCount()).toBe(1);
  await vi.advanceTimersByTimeAsync(DAY_MS);
  expect(woken).toEqual([
    ['first', 1000],
    ['second', 2000],
    ['third', 3000],
    ['with the third', 3000],
  ]);
  expect(vi.getTimerCount()).toBe(0);
});

test('a new time of a session replaces the previous one, be it sooner or later', async () => {
  const { times, woken } = wakeTimes();
  times.set('sooner', 9000);
  times.set('sooner', 1000);
  times.set('later', 2000);
  times.set('later', 8000);
  await vi.advanceTimersByTimeAsync(DAY_MS);
  expect(woken).toEqual([
    ['sooner', 1000],
    ['later', 8000],
  ]);
});

test('a time that is past already wakes without delay', async () => {
  const { times, woken } = wakeTimes();
  times.set('late', -5000);
  await vi.advanceTimersByTimeAsync(1);
  expect(woken.map(([name]) => name)).toEqual(['late']);
});

test('a time further away than a timer of Node can wait is kept to the millisecond', async () => {
  const { times, woken } = wakeTimes();
  const far = 3 * 2 ** 31 + 7;
  times.set('far', far);
  times.set('near', 1000);
  await vi.advanceTimersByTimeAsync(far - 1);
  expect(woken).toEqual([['near', 1000]]);
  await vi.advanceTimersByTimeAsync(1);
  expect(woken).toEqual([
    ['near', 1000],
    ['far', far],
  ]);
});

test('a session whose time was cancelled is not woken, the others are', async () => {
  const { times, woken } = wakeTimes();
  times.set('gone', 1000);
  times.set('stays', 2000);
  times.cancel('gone');
  times.cancel('never set');
  await vi.advanceTimersByTimeAsync(DAY_MS);
  expect(woken).toEqual([['stays', 2000]]);
});

test('a session may set its next time while it is woken', async () => {
  const { times, woken } = wakeTimes();
  const again = createWakeTimes(realClock, (name) => {
    times.set(`${name} again`, 500);
  });
  again.set('demo', 1000);
  await vi.advanceTimersByTimeAsync(DAY_MS);
  expect(woken).toEqual([['demo again', 1500]]);
});

test('once closed it wakes nobody and keeps no timer', async () => {
  const { times, woken } = wakeTimes();
  times.set('demo', 1000);
  times.close();
  expect(vi.getTimerCount()).toBe(0);
  await vi.advanceTimersByTimeAsync(DAY_MS);
  expect(woken).toEqual([]);
});
