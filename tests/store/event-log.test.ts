import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import type { Event, EventBody } from '../../src/protocol/session/event.ts';
import { decodeEventLine, encodeEventLine } from '../../src/store/event-log/event-codec.ts';
import { readEventLog } from '../../src/store/event-log/log-reader.ts';
import { CorruptLogError, sessionPaths } from '../../src/store/index.ts';
import { childProgram } from '../support/child-program.ts';
import fc, { anyCharacter } from '../support/property.ts';
import { at, diskRig, eventsOf, opened, progressed, tempFolder } from './rig.ts';

const stamp = (seq: number) => ({ v: 2 as const, seq, epoch: 1, synced: 0, at: at().toISOString() });
const lineOf = (seq: number) => encodeEventLine(stamp(seq), seq === 1 ? opened : progressed(seq));
const seqs = (events: Event[]) => events.map(({ seq }) => seq);

/** A session folder with exactly this event log. */
function withRecord(content: string | Buffer) {
  const folder = tempFolder();
  const path = join(folder, 'events.jsonl');
  fs.writeFileSync(path, content);
  const torn = () => fs.readdirSync(folder).filter((name) => name.startsWith('events.torn'));
  return { folder, path, torn, rig: (options = {}) => diskRig(folder, options) };
}

describe('a line', () => {
  const text = fc.oneof(
    fc.string(),
    fc.string({ unit: anyCharacter }),
    fc.constantFrom('输出', '\ud800', ',"crc":"00000000"}', '\u2028'),
  );
  const body: fc.Arbitrary<EventBody> = fc.oneof(
    fc.record({
      type: fc.constant('tool.started'),
      call: text,
      name: text,
      args: text,
      replay: fc.constantFrom('safe', 'never'),
    }),
    fc.record({ type: fc.constant('recovery.started'), open: fc.array(text) }),
    fc.record({
      type: fc.constant('step.claimed'),
      step: text,
      tier: fc.constant('marker'),
      evidence: text,
      veto: fc.json(),
    }),
  );

  test('comes back as it was written, whatever the text in it', () => {
    fc.assert(
      fc.property(body, fc.integer({ min: 1, max: 2 ** 50 }), (event, seq) => {
        const line = encodeEventLine(stamp(seq), event);
        expect(line.indexOf('\n')).toBe(line.length - 1);
        expect(decodeEventLine(Buffer.from(line.slice(0, -1)))).toEqual({
          ok: true,
          event: { ...stamp(seq), ...event },
        });
      }),
    );
  });

  test('with any one byte changed is not taken', () => {
    fc.assert(
      fc.property(body, fc.nat(), fc.integer({ min: 1, max: 255 }), (event, where, change) => {
        const bytes = Buffer.from(encodeEventLine(stamp(1), event).slice(0, -1));
        const index = where % bytes.length;
        bytes[index] = (bytes[index] ?? 0) ^ change;
        expect(decodeEventLine(bytes).ok).toBe(false);
      }),
    );
  });

  test('has the form the format page promises', () => {
    expect(lineOf(1)).toMatch(
      /^\{"v":2,"seq":1,"epoch":1,"synced":0,"at":"[^"]+","type":"session.opened","format":1,"key":"demo","crc":"[0-9a-f]{8}"\}\n$/,
    );
  });
});

describe('a torn record', () => {
  test('cut at any byte keeps every whole line, and the rest beside it', async () => {
    const lines = [1, 2, 3].map(lineOf);
    const whole = Buffer.from(lines.join(''));
    for (let cut = 0; cut <= whole.length; cut++) {
      const { path, torn, rig, folder } = withRecord(whole.subarray(0, cut));
      const kept = lines.filter((_, index) => Buffer.byteLength(lines.slice(0, index + 1).join('')) <= cut);
      const store = rig().store;
      expect(seqs(await eventsOf(store))).toEqual(kept.map((_, index) => index + 1));
      expect(fs.readFileSync(path, 'utf8')).toBe(kept.join(''));
      const good = Buffer.byteLength(kept.join(''));
      expect(torn()).toEqual(good === cut ? [] : [`events.torn-${good}`]);
      if (good < cut) expect(fs.readFileSync(join(folder, `events.torn-${good}`))).toEqual(whole.subarray(good, cut));
      expect(seqs(await store.eventLog.append([progressed(9)]))).toEqual([kept.length + 1]);
      await store.close();
    }
  });

  test('ends with a whole line of rubbish: it is cut off and kept, twice under two names', async () => {
    const { torn, rig, path } = withRecord(`${lineOf(1)}${'\0'.repeat(20)}\n`);
    expect(seqs(await eventsOf(rig().store))).toEqual([1]);
    fs.appendFileSync(path, 'rubbish again');
    expect(seqs(await eventsOf(rig().store))).toEqual([1]);
    expect(torn()).toEqual([`events.torn-${lineOf(1).length}`, `events.torn-${lineOf(1).length}-2`]);
  });

  test('is read by others without being changed', async () => {
    const content = `${lineOf(1)}${lineOf(2).slice(0, 20)}`;
    const { path, torn, folder } = withRecord(content);
    const events: Event[] = [];
    await readEventLog(sessionPaths(folder), (event) => events.push(event));
    expect([seqs(events), fs.readFileSync(path, 'utf8'), torn()]).toEqual([[1], content, []]);
  });
});

describe('a corrupt record', () => {
  const strange = (line: string, change: (text: string) => string) => {
    const head = change(line.replace(/,"crc".*\n/, ''));
    const probe = spawnSync(process.execPath, [
      '-p',
      'require("zlib").crc32(process.argv[1]).toString(16).padStart(8,"0")',
      head,
    ]);
    return `${head},"crc":"${probe.stdout.toString().trim()}"}\n`;
  };
  test.each([
    [
      'a changed line in the middle',
      `${lineOf(1)}${lineOf(2).replace('100', '999')}${lineOf(3)}`,
      'line 2 cannot be trusted: its checksum',
    ],
    ['a line that is missing', `${lineOf(1)}${lineOf(3)}`, 'line 2 cannot be trusted: it is event 3, but event 2'],
    ['a line that is there twice', `${lineOf(1)}${lineOf(1)}`, 'line 2 cannot be trusted: it is event 1, but event 2'],
    ['an empty line in the middle', `${lineOf(1)}\n${lineOf(2)}`, 'line 2'],
    [
      'an event of another version',
      lineOf(1) + strange(lineOf(2), (t) => t.replace('step.progressed', 'step.danced')),
      'another version',
    ],
    ['a newer format', strange(lineOf(1), (t) => t.replace('"v":2', '"v":3')), 'format 3, written by another version'],
    ['an event that does not fit', strange(lineOf(1), (t) => t.replace('"demo"', '7')), 'key'],
  ])('with %s is refused, and every byte of it stays', async (_, content, why) => {
    const { path, torn, rig } = withRecord(content);
    const { store } = rig();
    await expect(eventsOf(store)).rejects.toThrow(CorruptLogError);
    await expect(store.eventLog.append([opened])).rejects.toThrow(why);
    await expect(store.eventLog.read(() => {})).rejects.toThrow(path);
    expect([fs.readFileSync(path, 'utf8'), torn()]).toEqual([content, []]);
  });
});

describe('an event log under attack', () => {
  const running = async () => {
    let ms = 0;
    const folder = tempFolder();
    const { store } = diskRig(folder, { elapsed: () => ms });
    await store.eventLog.append([opened]);
    return { store, path: join(folder, 'events.jsonl'), later: () => (ms += 2000) };
  };

  test('that was replaced under the daemon is noticed before the next event', async () => {
    const { store, path, later } = await running();
    fs.writeFileSync(`${path}.new`, fs.readFileSync(path));
    fs.renameSync(`${path}.new`, path);
    later();
    await expect(store.eventLog.append([progressed(1)])).rejects.toThrow('it was replaced while in use');
  });

  test('that was removed under the daemon is noticed before the next event', async () => {
    const { store, path, later } = await running();
    fs.unlinkSync(path);
    later();
    await expect(store.eventLog.append([progressed(1)])).rejects.toThrow('it was removed or renamed');
  });

  test('that another program wrote to is noticed at once', async () => {
    const { store, path } = await running();
    fs.appendFileSync(path, 'x');
    await expect(store.eventLog.append([progressed(1)])).rejects.toThrow('another program wrote to it');
  });

  test.each([
    ['a link', (path: string) => fs.symlinkSync('/dev/null', path)],
    ['a folder', (path: string) => fs.mkdirSync(path)],
    ['a pipe', (path: string) => void spawnSync('mkfifo', [path])],
  ])('with %s in its place is neither followed nor waited for', async (_, put) => {
    const folder = tempFolder();
    put(join(folder, 'events.jsonl'));
    await expect(eventsOf(diskRig(folder).store)).rejects.toThrow('events.jsonl');
  });
});

describe('an event log on a bad disk', () => {
  const plain = {
    write: (fd: number, bytes: Uint8Array, offset: number) => fs.writeSync(fd, bytes, offset),
    sync: async () => {},
  };
  const failing = (code: string) => Object.assign(new Error(code), { code });

  test('takes back a write that stopped half-way, and goes on when there is room again', async () => {
    let full = false;
    const write = (fd: number, bytes: Uint8Array, offset: number) => {
      if (full && offset > 0) throw failing('ENOSPC');
      return fs.writeSync(fd, bytes.subarray(offset, offset + 10));
    };
    const { path, rig } = withRecord('');
    const { store } = rig({ disk: { ...plain, write } });
    await store.eventLog.append([opened]);
    full = true;
    await expect(store.eventLog.append([progressed(2)])).rejects.toThrow(/the disk is full.*ENOSPC/s);
    expect(fs.readFileSync(path, 'utf8')).toBe(lineOf(1));
    full = false;
    expect(seqs(await store.eventLog.append([progressed(2)]))).toEqual([2]);
    expect(seqs(await eventsOf(store))).toEqual([1, 2]);
  });

  test('meets a real limit in the middle of a write: whole lines stay, the event log opens again', async () => {
    const folder = tempFolder();
    const child = await childProgram('tests/store/full-disk.child.ts');
    const run = spawnSync('bash', ['-c', 'ulimit -f 16; exec node "$0" "$1"', child, folder]);
    expect(run.stdout.toString()).toContain('EFBIG');
    const reported = Number(/took (\d+)/.exec(run.stdout.toString())?.[1]);
    expect(reported).toBeGreaterThan(10);
    expect(seqs(await eventsOf(diskRig(folder).store))).toHaveLength(reported);
    expect(fs.readdirSync(folder).filter((name) => name.startsWith('events.torn'))).toEqual([]);
  });

  test('whose sync failed once takes nothing more until it is opened again', async () => {
    let syncs = 0;
    const sync = async () => {
      if (++syncs === 1) throw failing('EIO');
    };
    const { rig } = withRecord('');
    const { store } = rig({ disk: { ...plain, sync } });
    await store.eventLog.append([opened]);
    await expect(store.eventLog.sync()).rejects.toThrow(/input\/output error.*EIO/s);
    await expect(store.eventLog.append([progressed(2)])).rejects.toThrow('EIO');
    await expect(store.eventLog.sync()).rejects.toThrow('EIO');
    expect(syncs).toBe(1);
    await store.close();
    expect(seqs(await rig().store.eventLog.append([progressed(2)]))).toEqual([2]);
  });
});

describe('sync', () => {
  const counting = () => {
    const syncs: Array<() => void> = [];
    const disk = {
      write: (fd: number, bytes: Uint8Array, offset: number) => fs.writeSync(fd, bytes, offset),
      sync: () => new Promise<void>((done) => void syncs.push(done)),
    };
    return { store: diskRig(tempFolder(), { disk }).store, syncs };
  };
  /** Waits until this many calls were requested, and any others would have been. */
  const askedFor = async (calls: number, syncs: unknown[]) => {
    while (syncs.length < calls) await nextTurn();
    for (let turns = 0; turns < 2; turns++) await nextTurn();
  };

  test('serves all who wait with one call, and who came after it began with the next', async () => {
    const { store, syncs } = counting();
    await store.eventLog.append([opened]);
    const early = [store.eventLog.sync(), store.eventLog.sync()];
    await askedFor(1, syncs);
    expect(syncs).toHaveLength(1);
    await store.eventLog.append([progressed(2)]);
    let served = false;
    const late = [store.eventLog.sync(), store.eventLog.sync()].map((one) => one.then(() => (served = true)));
    await askedFor(1, syncs);
    syncs[0]?.();
    await Promise.all(early);
    await askedFor(2, syncs);
    expect([syncs.length, served]).toEqual([2, false]);
    syncs[1]?.();
    await Promise.all(late);
    expect(syncs).toHaveLength(2);
  });

  test('costs nothing where everything is durable already', async () => {
    const { store, syncs } = counting();
    await store.eventLog.sync();
    await store.eventLog.append([opened]);
    const first = store.eventLog.sync();
    await askedFor(1, syncs);
    syncs[0]?.();
    await first;
    await store.eventLog.sync();
    expect(syncs).toHaveLength(1);
  });

  test('covers an append that was asked for but not awaited', async () => {
    const { store, syncs } = counting();
    const append = store.eventLog.append([opened]);
    const sync = store.eventLog.sync();
    await append;
    await askedFor(1, syncs);
    expect(syncs).toHaveLength(1);
    syncs[0]?.();
    await sync;
  });
});
