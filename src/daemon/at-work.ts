import * as fs from 'node:fs';
import type { Clock } from '../engine/ports.ts';
import { AtWork, AtWorkOf } from '../protocol/losses.ts';

/** Bytes of a line: a name of 255 bytes and what stands around it. A longer one is left out, and nothing is proven of it. */
const LINE = 512;
const ALIVE_MS = 1000;

/** Sessions with something going on, in a file that outlives the daemon. It is never synced: after a power cut nobody is asked. */
export type AtWorkFile = {
  begins(session: string): void;
  rests(session: string): void;
  close(): void;
};

/** What the last daemon left: who was at work when it was lost, and for how long at least. */
export type Found = { ownerSince: string; atWork: AtWork[]; aliveMs: number };

/**
 * One line a session, in the place of one that has come to rest: some ten microseconds, and readable by `cat`. Where it cannot be written nothing
 * is proven later, and that is all.
 */
export function openAtWork(path: string, ownerSince: string, clock: Clock): AtWorkFile {
  const began = clock.elapsed();
  const places = new Map<string, number>();
  const free: number[] = [];
  let fd: number | undefined = quietly(() => fs.openSync(path, 'w', 0o600));
  let next = 1;

  function put(place: number, content: object | null): void {
    const line = Buffer.from(content ? JSON.stringify(content) : '');
    if (fd === undefined || line.length >= LINE) return;
    const bytes = Buffer.alloc(LINE, ' ');
    line.copy(bytes);
    bytes[LINE - 1] = 0x0a;
    quietly(() => fs.writeSync(fd ?? -1, bytes, 0, LINE, place * LINE));
  }

  const alive = (): void => put(0, { owner_since: ownerSince, alive_ms: Math.round(clock.elapsed() - began) });
  alive();
  const timer = setInterval(() => places.size > 0 && alive(), ALIVE_MS);
  timer.unref();
  return {
    begins(session) {
      if (places.has(session)) return;
      const place = free.pop() ?? next++;
      places.set(session, place);
      put(place, { session, since_ms: Math.round(clock.elapsed() - began) } satisfies AtWork);
    },
    rests(session) {
      const place = places.get(session);
      if (place === undefined) return;
      places.delete(session);
      free.push(place);
      put(place, null);
    },
    close() {
      clearInterval(timer);
      if (fd !== undefined) fs.closeSync(fd);
      fd = undefined;
    },
  };
}

/** Undefined where there is none, or nothing that makes sense. */
export function readAtWork(path: string): Found | undefined {
  const [first, ...rest] = (quietly(() => fs.readFileSync(path, 'utf8')) ?? '').split('\n').map(parsed);
  const head = AtWorkOf.safeParse(first).data;
  if (!head) return undefined;
  const atWork = rest.flatMap((line) => AtWork.safeParse(line).data ?? []);
  return { ownerSince: head.owner_since, atWork, aliveMs: head.alive_ms };
}

const parsed = (line: string): unknown => quietly(() => JSON.parse(line));

function quietly<T>(job: () => T): T | undefined {
  try {
    return job();
  } catch {
    return undefined;
  }
}
