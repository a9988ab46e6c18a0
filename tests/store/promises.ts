import { describe, expect, test } from 'vitest';
import type { DroppedFile } from '../../src/engine/ports/store-ports.ts';
import type { LogPosition } from '../../src/protocol/session/log-entry.ts';
import { eventsOf, opened, progressed, type Rig } from './rig.ts';

/** What upload tools, browsers, editors, backups, sync programs and desktops leave in a folder. */
const HALF_MADE = [
  ...['job.md.filepart', 'job.md.5f2a1b3c.partial', 'x.part', 'x.crdownload', 'x.opdownload', 'x.aria2', 'x.!qB'],
  ...['x.md.upload', 'x.driveupload', 'x.gstmp', 'x.writing', 'x.download', 'x.tmp', 'x.TEMP', 'x.SWP', 'x.swx', '#x#'],
  ...[
    '4913',
    '~$x.docx',
    'x.kate-swp',
    'x.md.lock',
    'x.md___jb_tmp___',
    'x~',
    'q.md.bak',
    'q.md.bak2',
    'q.old',
    'q.orig',
  ],
  ...['q.rej', 'q.save', 'q.save.1', 'q.dpkg-old', 'q.sync-conflict-20260105-081500-ABCDEFG.md', 'Thumbs.db'],
  ...["q (Anna's conflicted copy 2026-01-05).md", 'q_conflict-20260105-081500.md', 'desktop.ini'],
];
const MESSAGES = [
  'save',
  'old.md',
  'lock.txt',
  'conflict.md',
  'Backup.md',
  'x.md 2',
  'partial',
  '4914.md',
  'copy of q.md',
];

/** The promises of every store, on disk or in memory. */
export function storePromises(where: string, make: () => Rig): void {
  const first = async (rig: Rig): Promise<DroppedFile> => {
    const [drop] = (await rig.store.inbox.listReady()).drops;
    if (!drop) throw new Error('nothing was dropped');
    return drop;
  };

  describe(`a session's record ${where}`, () => {
    test('is empty at first', async () => {
      expect(await eventsOf(make().store)).toEqual([]);
    });

    test('stamps events with seq from 1, epoch and time, and gives them back the same after a restart', async () => {
      const rig = make();
      const [one] = await rig.store.eventLog.append([opened]);
      const more = await rig.store.eventLog.append([progressed(1), progressed(2)]);
      await rig.store.eventLog.sync();
      expect(one).toMatchObject({ v: 2, seq: 1, epoch: 1, at: '2026-01-02T03:04:05.678Z', ...opened });
      expect(await eventsOf((await rig.reopen()).store)).toEqual([one, ...more]);
    });

    test('goes on with the next seq after a restart, also where it was not read first', async () => {
      const rig = make();
      await rig.store.eventLog.append([opened]);
      const next = await rig.reopen();
      expect((await next.store.eventLog.append([progressed(1)])).map(({ seq }) => seq)).toEqual([2]);
    });

    test('keeps the order in which appends were asked for', async () => {
      const { store } = make();
      await Promise.all(Array.from({ length: 50 }, (_, n) => store.eventLog.append([progressed(n)])));
      const events = await eventsOf(store);
      expect(events.map((event) => (event.type === 'step.progressed' ? event.progress.current : -1))).toEqual(
        Array.from({ length: 50 }, (_, n) => n),
      );
      expect(events.map(({ seq }) => seq)).toEqual(Array.from({ length: 50 }, (_, n) => n + 1));
    });

    test('appends of nothing change nothing', async () => {
      const { store } = make();
      expect(await store.eventLog.append([])).toEqual([]);
      await store.eventLog.sync();
      expect(await eventsOf(store)).toEqual([]);
    });

    test('refuses an event that could not be read back, and takes the next one', async () => {
      const { store } = make();
      await expect(store.eventLog.append([{ ...opened, key: 7 } as never])).rejects.toThrow('could not be read back');
      expect((await store.eventLog.append([opened])).map(({ seq }) => seq)).toEqual([1]);
    });
  });

  describe(`a mark of the event log ${where}`, () => {
    const from = async (rig: Rig, mark: LogPosition) => {
      const seqs: number[] = [];
      return [await rig.store.eventLog.read(({ seq }) => seqs.push(seq), mark), seqs];
    };

    test('is the end of what was read or appended, and what comes after it is read alone', async () => {
      const rig = make();
      expect(rig.store.eventLog.position()).toMatchObject({ seq: 0, offset: 0 });
      await rig.store.eventLog.append([opened, progressed(1)]);
      const mark = rig.store.eventLog.position();
      await rig.store.eventLog.append([progressed(2), progressed(3)]);
      const end = rig.store.eventLog.position();
      const next = await rig.reopen();
      expect(await from(next, mark)).toEqual(['read', [3, 4]]);
      expect(next.store.eventLog.position()).toEqual(end);
      expect(await from(next, end)).toEqual(['read', []]);
      expect((await next.store.eventLog.append([progressed(4)])).map(({ seq }) => seq)).toEqual([5]);
    });

    test.each([{ seq: 1 }, { seq: 3 }, { offset: 5 }, { offset: 1_000_000 }, { crc: 'ffffffff' }, { segment: 2 }])(
      'that the event log does not have (%j) is reported, and no event',
      async (wrong) => {
        const rig = make();
        await rig.store.eventLog.append([opened, progressed(1)]);
        const mark = { ...rig.store.eventLog.position(), ...wrong };
        await rig.store.eventLog.append([progressed(2)]);
        expect(await from(await rig.reopen(), mark)).toEqual(['unfit', []]);
      },
    );
  });

  describe(`a snapshot ${where}`, () => {
    test('comes back with its mark, as JSON makes it; the last one counts', async () => {
      const rig = make();
      expect(await rig.store.snapshots.load()).toBeUndefined();
      await rig.store.eventLog.append([opened]);
      await rig.store.snapshots.save(rig.store.eventLog.position(), { n: 1 });
      await rig.store.eventLog.append([progressed(1)]);
      const mark = rig.store.eventLog.position();
      await rig.store.snapshots.save(mark, { text: '输出 "x"', no: undefined });
      await rig.store.eventLog.append([progressed(2)]);
      expect(await (await rig.reopen()).store.snapshots.load()).toEqual({ mark, state: { text: '输出 "x"' } });
    });

    test('whose mark the event log does not have is none', async () => {
      const rig = make();
      await rig.store.eventLog.append([opened]);
      const mark = rig.store.eventLog.position();
      await rig.store.snapshots.save({ ...mark, crc: 'ffffffff' }, {});
      expect(await rig.store.snapshots.load()).toBeUndefined();
      await rig.store.snapshots.save({ ...mark, seq: 9 }, {});
      expect(await rig.store.snapshots.load()).toBeUndefined();
    });
  });

  describe(`a reply that was consumed ${where}`, () => {
    test('is put in place again from where it was moved to, and reported where it is not kept', async () => {
      const rig = make();
      await rig.store.outbox.publish('1.md', 'the answer');
      rig.consume('1.md');
      expect(await rig.store.outbox.restore('1.md')).toBe(true);
      expect(rig.replies()).toEqual({ '1.md': 'the answer' });
      expect(await rig.store.outbox.restore('2.md')).toBe(false);
    });
  });

  describe(`blobs ${where}`, () => {
    test('come back by the hash of their content; the same text twice is one', async () => {
      const { store } = make();
      const text = 'a long output, 输出\n'.repeat(5000);
      const hash = await store.blobs.put(text);
      expect(hash).toMatch(/^[0-9a-f]{64}$/);
      expect(await store.blobs.put(text)).toBe(hash);
      expect(await store.blobs.get(hash)).toBe(text);
    });

    test('that nobody put are undefined, whatever the hash looks like', async () => {
      const { store } = make();
      expect(await store.blobs.get('0'.repeat(64))).toBeUndefined();
      expect(await store.blobs.get('../events.jsonl')).toBeUndefined();
    });
  });

  describe(`an inbox ${where}`, () => {
    test('hands out a text file as it was typed, without its byte order mark', async () => {
      const rig = make();
      rig.drop('1.md', '\uFEFFcount the words\n  in notes.txt\n');
      const { drops, pending, more } = await rig.store.inbox.listReady();
      expect(drops).toMatchObject([
        { name: '1.md', ok: true, json: false, message: { text: 'count the words\n  in notes.txt\n' } },
      ]);
      expect([pending, more]).toEqual([false, false]);
    });

    test('hands out a .json file as the message it holds', async () => {
      const rig = make();
      rig.drop('1.JSON', '{"id":"a","text":"hi","options":{"when":"after"}}');
      expect(await first(rig)).toMatchObject({
        ok: true,
        json: true,
        message: { id: 'a', text: 'hi', options: { when: 'after' } },
      });
    });

    test('orders by time, except that names with a ULID go by that', async () => {
      const rig = make();
      rig.drop('z.md', 'first');
      rig.drop('a.md', 'second');
      rig.drop('01HF7YAT31JZHHJZ3PF41S0VZP.cli.msg.json', '{"text":"ulid two"}');
      rig.drop('01HF7YAT30JZHHJZ3PF41S0VZP.cli.msg.json', '{"text":"ulid one"}');
      const texts = (await rig.store.inbox.listReady()).drops.map((drop) => drop.ok && drop.message.text);
      expect(texts.filter((text) => !String(text).startsWith('ulid'))).toEqual(['first', 'second']);
      expect(texts.filter((text) => String(text).startsWith('ulid'))).toEqual(['ulid one', 'ulid two']);
    });

    test('hands out at most as many as asked for, and says that there are more', async () => {
      const rig = make();
      for (const n of [1, 2, 3]) rig.drop(`${n}.md`, `task ${n}`);
      const some = await rig.store.inbox.listReady({ max: 2 });
      expect([some.drops.map(({ name }) => name), some.more]).toEqual([['1.md', '2.md'], true]);
      const all = await rig.store.inbox.listReady({ max: 3 });
      expect([all.drops.length, all.more]).toEqual([3, false]);
    });

    test('leaves hidden and half-made files alone', async () => {
      const rig = make();
      for (const name of [...HALF_MADE, '.x.md', '.x.swp', '.#x']) rig.drop(name, 'not a message');
      expect(await rig.store.inbox.listReady()).toEqual({ drops: [], pending: false, more: false });
      for (const name of MESSAGES) rig.drop(name, 'a message');
      expect((await rig.store.inbox.listReady()).drops.map(({ name }) => name)).toEqual(MESSAGES);
    });

    test.each([
      ['white space', 'x.md', ' \n\t\n', 'the file is empty'],
      ['a NUL', 'x.md', 'ab\0c', 'byte 2 is a NUL'],
      ['what is not UTF-8', 'x.md', Buffer.from([0x61, 0xe4, 0xb8, 0x61]), 'byte 1'],
      ['broken JSON', 'x.json', '{\n  "text": "a"\n  "id": 1}', 'line 3, column 3: expected "," or "}"'],
      ['an unknown key', 'x.json', '{"txt":"hi","text":"x"}', 'unknown key "txt"; did you mean "text"?'],
      [
        'an id that is too long',
        'x.json',
        `{"text":"x","id":"${'i'.repeat(201)}"}`,
        'id: expected string to have <=200',
      ],
      ['a wrong type', 'x.json', '{"text":5}', 'text: expected string, got 5'],
      ['nothing to say', 'x.json', '{}', 'expected "text", "command" or "attachments"'],
      [
        'a path as attachment',
        'x.json',
        '{"text":"x","attachments":["/etc/passwd"]}',
        'attachments.0: expected ".files/',
      ],
      ['more than 10 MiB', 'x.md', Buffer.alloc(11 * 1024 * 1024, 'a'), 'too large: 11534336 bytes'],
      ['an empty file that came in whole', 'x.msg.md', '', 'the file is empty'],
    ])('says why %s is no message', async (_, name, content, why) => {
      const rig = make();
      rig.drop(name, content);
      const drop = await first(rig);
      expect(drop).toMatchObject({ ok: false, why: expect.stringContaining(why) });
      await rig.store.inbox.reject(drop, 'no');
      expect([rig.waiting(), rig.rejected()]).toEqual([[], [name]]);
    });

    test('keeps an empty file waiting', async () => {
      const rig = make();
      rig.drop('now.md', '');
      const { drops, pending } = await rig.store.inbox.listReady();
      // On disk it is refused because of its old time; the promise is that it is never a message.
      expect(drops.filter((drop) => drop.ok)).toEqual([]);
      expect(pending || drops.length === 1).toBe(true);
    });

    test('moves a message to done/ once; a second time changes nothing', async () => {
      const rig = make();
      rig.drop('1.md', 'hi');
      const drop = await first(rig);
      await rig.store.inbox.moveToDone(drop, 7, []);
      await rig.store.inbox.moveToDone(drop, 7, []);
      expect([rig.waiting(), rig.done()]).toEqual([[], ['7-1.md']]);
    });

    test('a file put under the same name after it was read stays, and is a new drop', async () => {
      const rig = make();
      rig.drop('1.md', 'one');
      const drop = await first(rig);
      await rig.store.inbox.moveToDone(drop, 1, []);
      rig.drop('1.md', 'two');
      await rig.store.inbox.moveToDone(drop, 1, []);
      await rig.store.inbox.reject(drop, 'late');
      const next = await first(rig);
      expect(next).toMatchObject({ ok: true, message: { text: 'two' } });
      expect(next.identity).not.toEqual(drop.identity);
    });

    test('a file put back from done/ has another time than when it was taken', async () => {
      const rig = make();
      rig.drop('1.md', 'one');
      const drop = await first(rig);
      await rig.store.inbox.moveToDone(drop, 7, []);
      rig.putBack('7-1.md', 'again.md');
      const { ctime_ns, ...same } = drop.identity;
      const back = await first(rig);
      expect(back.identity).toMatchObject(same);
      expect(back.identity.ctime_ns).not.toBe(ctime_ns);
    });

    test('the same file looked at twice is the same drop', async () => {
      const rig = make();
      rig.drop('1.md', 'one');
      expect((await first(rig)).identity).toEqual((await first(await rig.reopen())).identity);
    });

    test('refuses two files of one name side by side', async () => {
      const rig = make();
      for (const text of ['a', 'b']) {
        rig.drop('1.md', text);
        await rig.store.inbox.reject(await first(rig), 'no');
      }
      expect(rig.rejected()).toEqual(['1-2.md', '1.md']);
    });

    test('moves attachments to free places under work/, once', async () => {
      const rig = make();
      rig.drop('1.json', '{"text":"see","attachments":[".files/a.png"]}');
      rig.attach('a.png');
      const drop = await first(rig);
      const [to] = await rig.store.inbox.placeAttachments(['.files/a.png']);
      expect(to).toMatchObject({ path: 'uploads/a.png', kind: 'text' });
      const moves = [{ from: '.files/a.png', to: to?.path ?? '' }];
      await rig.store.inbox.moveToDone(drop, 1, moves);
      await rig.store.inbox.moveToDone(drop, 1, moves);
      expect(rig.uploads()).toEqual(['a.png']);
      rig.attach('a.png');
      expect(await rig.store.inbox.placeAttachments(['.files/a.png', '.files/a.png'])).toMatchObject([
        { path: 'uploads/a-2.png' },
        { path: 'uploads/a-3.png' },
      ]);
    });

    test('says which attachment is missing', async () => {
      await expect(make().store.inbox.placeAttachments(['.files/b.png'])).rejects.toThrow('.files/b.png');
    });
  });

  describe(`an outbox ${where}`, () => {
    test('publishes a reply once; the same bytes again change nothing', async () => {
      const rig = make();
      await rig.store.outbox.publish('1.md', 'one');
      await (await rig.reopen()).store.outbox.publish('1.md', 'one');
      expect(rig.replies()).toEqual({ '1.md': 'one' });
    });

    test('publishes a reply where other bytes lie under its name, and keeps those under another', async () => {
      const rig = make();
      await rig.store.outbox.publish('1.md', 'of an event log that is gone');
      await rig.store.outbox.publish('1.md', 'new');
      await rig.store.outbox.republish('1.md', 'newer');
      await rig.store.outbox.publish('1.md', 'newer');
      expect(rig.replies()).toEqual({
        '1.md': 'newer',
        '1.earlier.md': 'of an event log that is gone',
        '1.earlier-2.md': 'new',
      });
    });

    test('a reply that was consumed is not one with other bytes', async () => {
      const rig = make();
      await rig.store.outbox.publish('1.md', 'of an event log that is gone');
      rig.consume('1.md');
      await rig.store.outbox.publish('1.md', 'new');
      expect(rig.replies()).toEqual({ '1.md': 'new' });
    });

    test.each(['read', 'READ', 'Read', 'read.', '.TMP', '\u200bread'])(
      '%j is a name of its own, and no reply is lost under it',
      async (name) => {
        const rig = make();
        expect(rig.store.outbox.isReserved(name)).toBe(true);
        if (name.startsWith('.')) return;
        await rig.store.outbox.publish(name, 'an answer');
        await (await rig.reopen()).store.outbox.publish(name, 'an answer');
        expect(rig.replies()).toEqual({ [`${name}-2`]: 'an answer' });
      },
    );

    test('leaves a consumed reply consumed, unless it is asked for again', async () => {
      const rig = make();
      await rig.store.outbox.publish('1.md', 'one');
      rig.consume('1.md');
      await (await rig.reopen()).store.outbox.publish('1.md', 'one');
      expect(rig.replies()).toEqual({});
      await rig.store.outbox.republish('1.md', 'one');
      expect(rig.replies()).toEqual({ '1.md': 'one' });
    });

    test.each(['', '.', '../x', 'a/b', '.tmp', 'x'.repeat(256)])('takes no name that is a path: %j', async (name) => {
      await expect(make().store.outbox.publish(name, 'x')).rejects.toThrow('Not a valid reply name');
    });
  });

  describe(`a plan file ${where}`, () => {
    test('is missing at first, and ours after a write', async () => {
      const rig = make();
      expect(await rig.store.plan.detectEdits()).toEqual({ is: 'missing' });
      expect(await rig.store.plan.write('{"n":1}')).toEqual({ is: 'ours' });
      expect(await rig.store.plan.detectEdits()).toEqual({ is: 'ours' });
      expect(rig.planText()).toBe('{"n":1}');
    });

    test('a save is reported until it is accepted, and is not overwritten before', async () => {
      const rig = make();
      await rig.store.plan.write('{"n":1}');
      rig.edit('{"n":"mine"}');
      const edited = { is: 'edited', saves: ['{"n":"mine"}'], inPlace: true };
      expect(await rig.store.plan.detectEdits()).toEqual(edited);
      expect(await rig.store.plan.write('{"n":2}')).toEqual(edited);
      expect(rig.planText()).toBe('{"n":"mine"}');
      rig.store.plan.markSeen('{"n":"mine"}');
      expect(await rig.store.plan.detectEdits()).toEqual({ is: 'ours' });
      expect(await rig.store.plan.write('{"n":2}')).toEqual({ is: 'ours' });
      expect(rig.planText()).toBe('{"n":2}');
    });

    test('a save that goes back to an older text is a save', async () => {
      const rig = make();
      await rig.store.plan.write('A');
      rig.edit('B');
      rig.store.plan.markSeen('B');
      rig.edit('A');
      expect(await rig.store.plan.detectEdits()).toMatchObject({ is: 'edited', saves: ['A'] });
    });

    test('the same bytes saved again are no edit', async () => {
      const rig = make();
      await rig.store.plan.write('A');
      rig.edit('A');
      expect(await rig.store.plan.detectEdits()).toEqual({ is: 'ours' });
      expect(await rig.store.plan.write('B')).toEqual({ is: 'ours' });
    });

    test('after a restart all that is there counts as edited, until it is accepted', async () => {
      const rig = make();
      await rig.store.plan.write('A');
      const next = await rig.reopen();
      expect(await next.store.plan.detectEdits()).toMatchObject({ is: 'edited', saves: ['A'] });
      next.store.plan.markSeen('A');
      expect(await next.store.plan.write('B')).toEqual({ is: 'ours' });
    });

    test('a deleted plan is missing, and comes back with the next write', async () => {
      const rig = make();
      await rig.store.plan.write('A');
      rig.deletePlan();
      expect(await rig.store.plan.detectEdits()).toEqual({ is: 'missing' });
      expect(await rig.store.plan.write('B')).toEqual({ is: 'ours' });
      expect(rig.planText()).toBe('B');
    });

    test('an ended plan is put under its id, and plan.json is gone', async () => {
      const rig = make();
      await rig.store.plan.write('A');
      await rig.store.plan.archive('plan_1', 'ended');
      expect(await rig.store.plan.detectEdits()).toEqual({ is: 'missing' });
      expect([rig.archived('plan_1'), rig.planText()]).toEqual(['ended', undefined]);
      expect(await (await rig.reopen()).store.plan.detectEdits()).toEqual({ is: 'missing' });
    });
  });

  test(`the text of the call in flight ${where} starts over with each call`, async () => {
    const rig = make();
    rig.store.live.begin();
    rig.store.live.write('first');
    rig.store.live.begin();
    rig.store.live.write('sec');
    rig.store.live.write('ond');
    await expect.poll(() => rig.live()).toBe('second');
  });
}
