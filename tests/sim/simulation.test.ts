import { expect, test } from 'vitest';
import { everything } from '../support/all.ts';
import { live, type Story } from './life.ts';
import { broken } from './promises.ts';
import { watchdog } from './watchdog.ts';

/** `SEEDS=10000` tells more stories, `FROM=501` begins elsewhere, `SEED=17` tells one again and shows it. */
const { SEEDS = everything ? '200' : '70', FROM = '1', SEED } = process.env;
const ENOUGH = 10;

async function reported(seed: number): Promise<string[]> {
  try {
    const story = await live(seed);
    if (SEED !== undefined) show(story);
    return broken(story);
  } catch (error) {
    return [error instanceof Error ? (error.stack ?? error.message) : String(error)];
  }
}

function show({ log, store }: Story): void {
  const events = store.hands.events().map((event) => JSON.stringify(event));
  console.log([...log, ...events].join('\n'));
}

test('whatever is dropped, edited, stopped, killed and cut off: it settles, and every promise holds', async () => {
  const first = Number(SEED ?? FROM);
  const last = SEED === undefined ? first + Number(SEEDS) - 1 : first;
  const failed: string[] = [];
  const dog = watchdog();
  for (let seed = first; seed <= last && failed.length < ENOUGH; seed++) {
    dog.at(seed);
    const wrong = await reported(seed);
    if (wrong.length > 0) failed.push(`SEED=${seed}\n  ${wrong.join('\n  ')}`);
  }
  await dog.end();
  expect(failed.join('\n')).toBe('');
}, 3_600_000);

test('a seed tells the same story each time', async () => {
  const [once, again] = [await live(7), await live(7)];
  const bare = (story: Story) => story.store.hands.events().map((event) => `${event.at} ${event.type}`);
  expect(bare(again)).toEqual(bare(once));
  expect(again.log).toEqual(once.log);
});
