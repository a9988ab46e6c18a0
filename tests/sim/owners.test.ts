import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { openSessionLog } from '../../src/engine/state/session-log.ts';
import type { Event } from '../../src/protocol/session/event.ts';
import { readLastEvent } from '../../src/store/event-log/log-reader.ts';
import { FencedError } from '../../src/store/fs/store-errors.ts';
import { sessionPaths } from '../../src/store/index.ts';
import { assertClaim, claimSession, SessionTakenError } from '../../src/store/session/session-claim.ts';
import { diskRig, eventsOf, progressed } from '../store/rig.ts';
import { everything } from '../support/all.ts';
import { type Chance, chanceOf } from './chance.ts';

/** `SEEDS=10000` tells more stories, `FROM=501` begins elsewhere, `SEED=17` tells one again. */
const { SEEDS = everything ? '1000' : '70', FROM = '1', SEED } = process.env;
const HOUR_MS = 3_600_000;

const base = fs.mkdtempSync(join(fs.existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'agentd-owners-'));
afterAll(() => fs.rmSync(base, { recursive: true, force: true }));

/** What an owner did that others could notice, and when the line that told of it was written. */
type Deed = { number: number; epoch: number; seq: number; written: number };

/**
 * A session's folder and the hosts that take it from each other. `late`: how many moments later a host may see the claim
 * of another one. The time is a count of moments, one to each step of a host.
 */
function world(folder: string, late: number, chance: Chance) {
  fs.mkdirSync(folder, { recursive: true });
  const paths = sessionPaths(folder);
  const deeds: Deed[] = [];
  const reads: { epoch: number; at: number; known: Map<number, number | undefined> }[] = [];
  /** The newest claim at each moment. */
  const claims: number[] = [0];
  let lines = 0;
  const now = () => claims.length - 1;
  const newestClaim = () =>
    Math.max(
      0,
      ...(fs.existsSync(paths.rotated) ? fs.readdirSync(paths.rotated) : []).map((name) =>
        Number(/^owner-(\d+)/.exec(name)?.[1] ?? 0),
      ),
    );

  /** One process. Each step of its generator ends where it may be frozen, for however long. */
  async function* life(owner: string, isWell = false): AsyncGenerator<void, void> {
    const skew = chance.of([0, -HOUR_MS, HOUR_MS]);
    const clock = () => new Date(Date.parse('2026-01-05T08:00:00.000Z') + skew + now());
    const seen = readLastEvent(paths)?.epoch ?? 0;
    yield;
    const epoch = await claimSession(paths, seen, { owner, host: owner, pid: 1, now: clock });
    for (const until = now() + 2 * late; now() < until; ) yield;
    // Before a write the last look may be long ago: it may freeze between the two.
    let isStale = false;
    const check = (): void => {
      if (isStale && chance.oneIn(2)) return;
      if (late === 0) assertClaim(paths, epoch);
      else if ((claims[Math.max(0, now() - chance.below(late + 1))] ?? 0) > epoch) throw new SessionTakenError(folder);
    };
    let isFull = false;
    const disk = {
      write: (file: number, bytes: Uint8Array, offset: number) => {
        if (!isFull) return fs.writeSync(file, bytes, offset);
        fs.writeSync(file, bytes.subarray(0, bytes.length / 2));
        throw Object.assign(new Error('made on purpose'), { code: 'ENOSPC' });
      },
      sync: async (file: number) => fs.fsyncSync(file),
    };
    const rig = diskRig(folder, { epoch, now: clock, disk, segmentBytes: 1500, own: { owner, check } });
    try {
      yield;
      const known = await eventsOf(rig.store);
      reads.push({ epoch, at: now(), known: new Map(known.map((event) => [event.seq, numberOf(event)])) });
      const { eventLog, snapshots } = rig.store;
      const log = await openSessionLog('session', eventLog, snapshots, () => 'nonce', undefined, check);
      for (;;) {
        yield;
        const number = ++lines;
        isStale = true;
        isFull = !isWell && chance.oneIn(20);
        const seq = await log.record([progressed(number)]);
        isStale = false;
        const written = now();
        yield;
        await log.sync();
        deeds.push({ number, epoch, seq, written });
      }
    } finally {
      await rig.store.close();
    }
  }
  const tick = () => claims.push(Math.max(newestClaim(), claims.at(-1) ?? 0));
  /** Whoever comes later must know all that was done: also if what it reads is as late as its file system may be. */
  const wrong = (): string[] =>
    reads.flatMap(({ epoch, at, known }) =>
      deeds
        .filter((deed) => deed.epoch < epoch && (known.get(deed.seq) !== deed.number || deed.written > at - late))
        .map(({ number, epoch: other }) => `epoch ${epoch} does not know deed ${number} of epoch ${other}`),
    );
  return { life, tick, deeds, wrong };
}

const numberOf = (event: Event | undefined): number | undefined =>
  event?.type === 'step.progressed' ? event.progress?.current : undefined;

/** How a host may end: it was replaced, or its disk was full. Anything else is a fault. */
const isExpected = (error: unknown): boolean =>
  error instanceof SessionTakenError ||
  error instanceof FencedError ||
  /begun by another worker|ENOSPC|disk is full/.test(String(error));

type World = ReturnType<typeof world>;

/** Lets a host do its next step; one that ends is over. Throws what is no way to end. */
async function go(host: AsyncGenerator, hosts: Set<AsyncGenerator>): Promise<void> {
  try {
    await host.next();
  } catch (error) {
    hosts.delete(host);
    if (!isExpected(error)) throw error;
  }
}

/** The last host reads what is there, alone. */
async function settle({ life, tick, deeds, wrong }: World): Promise<{ wrong: string[]; deeds: number }> {
  const last = life('last', true);
  for (let n = 0; n < 40; n++) {
    tick();
    await last.next();
  }
  await last.return();
  return { wrong: wrong(), deeds: deeds.length };
}

/** Hosts come, freeze, wake up, and are killed, by chance. */
async function story(seed: number) {
  const chance = chanceOf(seed);
  const folder = join(base, `s${seed}`);
  const one = world(folder, chance.of([0, 0, 6]), chance);
  const hosts = new Set<AsyncGenerator>();
  const frozen = new Map<AsyncGenerator, number>();
  for (let n = 0; n < 60; n++) {
    one.tick();
    if (hosts.size === 0 || (hosts.size < 4 && chance.oneIn(12))) hosts.add(one.life(`host-${n}`));
    const awake = [...hosts].filter((host) => (frozen.get(host) ?? 0) <= n);
    const picked = awake[chance.below(awake.length)];
    if (!picked) continue;
    if (chance.oneIn(25)) {
      hosts.delete(picked);
      await picked.return(undefined);
    } else if (chance.oneIn(8)) frozen.set(picked, n + chance.below(30));
    else await Promise.all((chance.oneIn(4) ? awake : [picked]).map((host) => go(host, hosts)));
  }
  // Those that are frozen wake up beside the last one.
  const end = await settle(one);
  for (const host of hosts) for (let n = 0; n < 6 && hosts.has(host); n++) await go(host, hosts);
  for (const host of hosts) await host.return(undefined);
  fs.rmSync(folder, { recursive: true, force: true });
  return { ...end, wrong: [...end.wrong, ...one.wrong()] };
}

test('hosts that take a session from each other, freeze and are killed: nobody acts on a line that its successor does not know', async () => {
  const first = Number(SEED ?? FROM);
  const last = SEED === undefined ? first + Number(SEEDS) - 1 : first;
  const failed: string[] = [];
  let deeds = 0;
  for (let seed = first; seed <= last && failed.length < 5; seed++) {
    const end = await story(seed).catch((error: unknown) => ({ wrong: [String(error)], deeds: 0 }));
    deeds += end.deeds;
    if (end.wrong.length > 0) failed.push(`SEED=${seed}\n  ${end.wrong.join('\n  ')}`);
  }
  expect(failed.join('\n')).toBe('');
  expect(deeds / (last - first + 1)).toBeGreaterThan(3);
}, 3_600_000);

/** All orders of `a` steps of one host and `b` of another. */
function orders(a: number, b: number): string[] {
  if (a === 0 || b === 0) return ['a'.repeat(a) + 'b'.repeat(b)];
  return [...orders(a - 1, b).map((rest) => `a${rest}`), ...orders(a, b - 1).map((rest) => `b${rest}`)];
}

test('in every order of the steps of two hosts, one of which froze between its look at the claims and its write', async () => {
  /** The look before a write is always an old one, and nothing else goes wrong. */
  const chance: Chance = { below: () => 0, oneIn: (n) => n === 2, of: (list) => list[0] };
  for (const order of orders(5, 5)) {
    const folder = join(base, order);
    const one = world(folder, 0, chance);
    const [a, b] = [one.life('a'), one.life('b')];
    const hosts = new Set([a, b]);
    for (let n = 0; n < 5; n++) await go(a, hosts);
    for (const step of order) {
      one.tick();
      const host = step === 'a' ? a : b;
      if (hosts.has(host)) await go(host, hosts);
    }
    for (const host of hosts) await host.return(undefined);
    const { wrong } = await settle(one);
    expect([order, wrong]).toEqual([order, []]);
    fs.rmSync(folder, { recursive: true, force: true });
  }
});
