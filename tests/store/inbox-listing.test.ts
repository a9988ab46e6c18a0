import * as fs from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { keepFolderOpen } from '../../src/store/fs/open-folder.ts';
import { openInboxListing } from '../../src/store/inbox/inbox-listing.ts';
import { tempFolder } from './rig.ts';

/** An inbox with this many messages; the higher the number, the older the file. */
function inboxOf(count: number) {
  const folder = tempFolder();
  const inbox = join(folder, 'inbox');
  fs.mkdirSync(inbox);
  const clock = { ms: 0 };
  const openFolder = keepFolderOpen(folder, [{ path: inbox }]);
  onTestFinished(() => openFolder.close());
  fs.writeFileSync(join(folder, 'words'), 'words');
  // The time in a ULID takes precedence over the file's own, which is the same for all these names.
  for (let n = 0; n < count; n++)
    fs.linkSync(
      join(folder, 'words'),
      join(inbox, `0${String(1_000_000 - n).padStart(7, '0')}${'0'.repeat(18)}.msg.${n}.md`),
    );
  const put = (n: number, year: number) => {
    fs.writeFileSync(join(inbox, `${n}.md`), 'words');
    fs.utimesSync(join(inbox, `${n}.md`), new Date(`${year}-01-01`), new Date(`${year}-01-01`));
  };
  const listing = openInboxListing(
    () => clock.ms,
    () => new Date(),
  );
  const numbers = (list: readonly { raw: Buffer }[]) =>
    list.map(({ raw }) => Number(/(\d+)\.md$/.exec(raw.toString())?.[1]));
  return {
    listing,
    clock,
    put,
    refresh: () => listing.refresh(openFolder.now()),
    page: () => numbers(listing.page()),
    newest: () => numbers(listing.newest()),
    /** Takes everything on the page. */
    take() {
      for (const { raw } of listing.page()) fs.rmSync(join(inbox, raw.toString()));
      listing.leave(new Set(listing.page()));
    },
  };
}

test('of thousands of files, the oldest four thousand, the newest 64 and later ones are listed', async () => {
  const { listing, clock, put, refresh, page, newest } = inboxOf(4100);
  expect(await refresh()).toBe(true);
  expect([page().length, page()[0], page().at(-1), listing.behind()]).toEqual([4000, 4099, 100, true]);
  expect([newest().length, newest()[0], newest().at(-1)]).toEqual([64, 63, 0]);
  put(5000, 2100);
  put(5001, 1970);
  clock.ms += 1000;
  expect(await refresh()).toBe(true);
  expect([page().length, page()[0], newest().at(-1)]).toEqual([4000, 5001, 5000]);
});

test('files that are not ready make room for the next page, and return after the last one', async () => {
  const { listing, clock, refresh, page, take } = inboxOf(4100);
  await refresh();
  listing.turn();
  await refresh();
  expect([page().length, page()[0]]).toEqual([100, 99]);
  take();
  clock.ms += 1000;
  await refresh();
  expect([page().length, page()[0], listing.behind()]).toEqual([4000, 4099, false]);
});
