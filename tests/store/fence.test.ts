import * as fs from 'node:fs';
import { expect, test } from 'vitest';
import type { Event } from '../../src/protocol/session/event.ts';
import { LOG_START, type LogPosition } from '../../src/protocol/session/log-entry.ts';
import { stampEvents } from '../../src/store/event-log/event-codec.ts';
import { crcOfLine } from '../../src/store/event-log/log-lines.ts';
import { type ReadStart, readEventLog, readStartFor } from '../../src/store/event-log/log-reader.ts';
import { FencedError, type SessionPaths, sessionPaths } from '../../src/store/index.ts';
import fc from '../support/property.ts';
import { at, diskRig, eventsOf, opened, progressed, tempFolder } from './rig.ts';

/** Every event of these tests has a unique number. */
const idOf = (event: Event) => (event.type === 'step.progressed' ? event.progress.current : 0);

async function reported(paths: SessionPaths, from?: ReadStart): Promise<number[] | 'unfit'> {
  const ids: number[] = [];
  return (await readEventLog(paths, (event) => ids.push(idOf(event)), from)) === 'unfit' ? 'unfit' : ids;
}

type Moment = { mark: LogPosition; view: number[] };

/** An owner that never checks before it writes: the worst case of a daemon that lost its lock without noticing. */
class Blind {
  readonly paths: SessionPaths;
  readonly epoch: number;
  view: number[] | undefined;
  mark = LOG_START;
  end = 0;
  wrote = 0;
  first = true;
  /** Whether it found a later owner at its opening, so that it writes nothing under its own number. */
  isLate = false;

  constructor(paths: SessionPaths, epoch: number) {
    this.paths = paths;
    this.epoch = epoch;
  }

  async open(): Promise<void> {
    const view: number[] = [];
    const extent = await readEventLog(this.paths, (event) => view.push(idOf(event)));
    if (extent === 'unfit') throw new Error('the beginning is always there');
    this.view = view;
    this.mark = extent.mark;
    this.end = extent.good;
    this.first = extent.epoch < this.epoch;
    this.isLate = extent.epoch > this.epoch;
  }

  write(): Moment {
    const id = this.epoch * 1000 + ++this.wrote;
    const { segment, offset } = this.mark;
    const fence = this.first ? { segment, offset } : undefined;
    const stamp = { seq: this.mark.seq, epoch: this.epoch, at: at().toISOString(), fence };
    const text = stampEvents([progressed(id)], stamp).text;
    fs.appendFileSync(this.paths.events, text);
    // At its own idea of the end, without checking whether somebody else wrote meanwhile.
    this.end += text.length;
    this.first = false;
    this.mark = { seq: stamp.seq + 1, segment: 1, offset: this.end, crc: crcOfLine(Buffer.from(text.trimEnd())) ?? '' };
    this.view = [...(this.view ?? []), id];
    return { mark: this.mark, view: this.view };
  }
}

/** Plays a sequence of turns: a writer's first is its opening, each later one a line. Then checks what readers get. */
async function play(turns: number[]): Promise<void> {
  const paths = sessionPaths(tempFolder());
  const writers = [1, 2, 3].map((epoch) => new Blind(paths, epoch));
  const moments: Moment[] = [];
  let newest: Blind | undefined;
  for (const turn of turns) {
    const writer = writers[turn];
    if (!writer) continue;
    if (!writer.view) await writer.open();
    else if (!writer.isLate) {
      moments.push(writer.write());
      if (!newest || newest.epoch < writer.epoch) newest = writer;
    }
  }
  const whole = newest?.view ?? [];
  expect(await reported(paths)).toEqual(whole);
  for (const { mark, view } of moments) {
    const later = await reported(paths, mark);
    if (later !== 'unfit') expect([...view, ...later]).toEqual(whole);
  }
  // Also behind the end, where lines of an earlier owner may still be.
  for (let place = 0; place < whole.length + 4; place++) {
    const start = await readStartFor(paths, place + 1);
    const rest = await reported(paths, start);
    if (rest !== 'unfit') expect(rest).toEqual(whole.slice(start === 'oldest' ? 0 : place));
  }
}

function* orders(left: number[], so: number[] = []): Generator<number[]> {
  if (left.every((count) => count === 0)) yield so;
  for (const [who, count] of left.entries()) {
    if (count > 0)
      yield* orders(
        left.map((other, place) => (place === who ? other - 1 : other)),
        [...so, who],
      );
  }
}

test('two owners at once, in every order of their turns: every reader sees what the later one saw, without gaps', async () => {
  for (const turns of orders([4, 3])) await play(turns);
});

test('three owners at once: every reader sees what the latest one saw, whatever the earlier ones did to each other', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(2), { maxLength: 14 }), (turns) => play(turns)),
    { numRuns: 300, examples: [[[0, 0, 0, 0, 2, 1, 1, 2, 2]], [[0, 0, 0, 1, 0, 2, 1, 2]]] },
  );
});

test('a daemon that finds the lines of a later owner stops for good, and its own lines are void', async () => {
  const folder = tempFolder();
  const old = diskRig(folder, { epoch: 1 }).store;
  await old.eventLog.append([opened]);
  const young = diskRig(folder, { epoch: 2 }).store;
  expect(await eventsOf(young)).toHaveLength(1);
  await old.eventLog.append([progressed(11)]);
  await young.eventLog.append([progressed(21)]);
  await expect(old.eventLog.append([progressed(12)])).rejects.toThrow(FencedError);
  await expect(old.eventLog.append([progressed(13)])).rejects.toThrow('epoch 2');
  await expect(old.eventLog.sync()).rejects.toThrow(FencedError);
  await young.eventLog.append([progressed(22)]);
  expect((await eventsOf(diskRig(folder).store)).map(idOf)).toEqual([0, 21, 22]);
  // Nothing is deleted; void lines stay in the file.
  expect(fs.readFileSync(sessionPaths(folder).events, 'utf8').match(/\n/g)).toHaveLength(4);
});

test('a log with a newer epoch is continued under that epoch', async () => {
  const folder = tempFolder();
  const moved = diskRig(folder, { epoch: 57 }).store;
  await moved.eventLog.append([opened]);
  await moved.close();
  const here = diskRig(folder, { epoch: 3 }).store;
  expect((await here.eventLog.append([progressed(1)])).map(({ seq, epoch }) => [seq, epoch])).toEqual([[2, 57]]);
  expect((await eventsOf(here)).map(idOf)).toEqual([0, 1]);
});

test('two writers of one epoch are detected at once, and neither overwrites the other', async () => {
  const folder = tempFolder();
  const one = diskRig(folder, { epoch: 4 }).store;
  await one.eventLog.append([opened]);
  const two = diskRig(folder, { epoch: 4 }).store;
  await two.eventLog.append([progressed(1)]);
  await expect(one.eventLog.append([progressed(2)])).rejects.toThrow('another program wrote to it');
  expect((await eventsOf(diskRig(folder, { epoch: 4 }).store)).map(idOf)).toEqual([0, 1]);
});

test('owners that look before they write, with segments rotated meanwhile: the latest one is believed and never stopped by an earlier', async () => {
  const someTurns = fc.array(fc.nat(2), { maxLength: 30 });
  await fc.assert(
    fc.asyncProperty(someTurns, fc.constantFrom(1, 400, 1_000_000), async (turns, segmentBytes) => {
      const folder = tempFolder();
      const writers = [1, 2, 3].map((epoch) => ({
        epoch,
        rig: undefined as ReturnType<typeof diskRig> | undefined,
        view: [] as number[],
        isOut: false,
        wrote: 0,
      }));
      let newest = 0;
      let whole: number[] = [];
      for (const turn of turns) {
        const writer = writers[turn];
        if (!writer || writer.isOut) continue;
        if (!writer.rig) {
          writer.isOut = newest > writer.epoch;
          if (writer.isOut) continue;
          writer.rig = diskRig(folder, { epoch: writer.epoch, segmentBytes });
          writer.view = (await eventsOf(writer.rig.store)).map(idOf);
          continue;
        }
        const id = writer.epoch * 1000 + ++writer.wrote;
        try {
          await writer.rig.store.eventLog.append([progressed(id)]);
        } catch (error) {
          // A segment that an earlier owner rotated meanwhile is read again, before anything was written to it.
          if (writer.epoch > newest && /replaced|another program wrote/.test(String(error))) {
            await writer.rig.store.close();
            writer.rig = undefined;
            continue;
          }
          expect(writer.epoch).toBeLessThan(newest);
          writer.isOut = true;
          continue;
        }
        expect(writer.epoch).toBeGreaterThanOrEqual(newest);
        writer.view.push(id);
        newest = writer.epoch;
        whole = writer.view;
      }
      expect(await reported(sessionPaths(folder))).toEqual(whole);
      for (const { rig } of writers) await rig?.store.close();
    }),
    { numRuns: 150 },
  );
});
