import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Browser, chromium, type Page } from 'playwright-core';
import { reduceEvent } from '../../src/core/reducers/reduce-event.ts';
import { emptySession } from '../../src/core/session/session-state.ts';
import { snapshotFromState } from '../../src/core/session/snapshot.ts';
import type { EventBody } from '../../src/protocol/session/event.ts';
import { openSessionFolder, sessionTokens } from '../../src/store/index.ts';
import { findBrowser } from '../../src/tools/browser/find-browser.ts';
import { startServer } from './children.ts';
import { FREE, makeSession, makeWorkspace } from './contender.ts';
import { count, median, mib, ms, quantile, table, times } from './numbers.ts';
import type { Setting } from './setting.ts';

const SIZES = { quick: { n: 2, events: 1000 }, usual: { n: 7, events: 10_000 } };
/** Events after the snapshot (at most 500 in practice), and from one compaction of the conversation to the next. */
const SINCE_SNAPSHOT = 250;
const FOLD_EVERY = 600;
/** A session as short as this is the floor: what the browser and the page need in any case. */
const SHORT = 10;

/** The time a browser needs to show a session, by the length of its event log. */
export async function page({ folder, size }: Setting): Promise<string> {
  const { n, events } = SIZES[size === 'quick' ? 'quick' : 'usual'];
  const workspace = makeWorkspace(join(folder, 'page'), FREE);
  for (const length of [SHORT, events]) await record(workspace, length);
  const server = await startServer(workspace);
  const browser = await launch();
  if (typeof browser === 'string') {
    await server.stop();
    return `page: not measured. ${browser}`;
  }
  try {
    const opened = await browser.newPage({ viewport: { width: 1280, height: 800 } });
    await opened.goto(`${server.url}/#token=${server.token}`);
    await opened.getByRole('navigation').waitFor();
    const floor = await show(opened, server.url, SHORT, n);
    const ours = await show(opened, server.url, events, n);
    const row = (what: string, of: (one: Shown) => number) => {
      const [took, least] = [ours.map(of), floor.map(of)];
      const both = (values: number[]) => `${ms(median(values))} / ${ms(quantile(values, 0.99))}`;
      return [what, String(n), both(took), both(least), median(least) > 0 ? times(median(took), median(least)) : ''];
    };
    return [
      `page: a session is opened in Chromium, ${count(events)} events beside ${SHORT}, ms; JavaScript in the end ${mib((ours.at(-1)?.heap ?? 0) / 2 ** 20)} MiB`,
      '',
      table(
        ['from the address to …', 'n', `${count(events)} p50 / p99`, `${SHORT} p50 / p99`, 'to the floor (p50)'],
        [
          row('the first paint', ({ firstPaint }) => firstPaint),
          row('the newest entry on screen', ({ newest }) => newest),
          row('the end of the last long task (interactive)', ({ interactive }) => interactive),
          row('the longest task', ({ longestTask }) => longestTask),
        ],
      ),
    ].join('\n');
  } finally {
    await browser.close();
    await server.stop();
  }
}

async function launch(): Promise<Browser | string> {
  try {
    const executablePath = findBrowser(undefined, process.env);
    return await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
  } catch (error) {
    return String(error);
  }
}

/** Writes a session with a number of events: answers in Markdown, each with a call, and compactions as by a daemon. */
async function record(workspace: string, length: number): Promise<void> {
  const store = openSessionFolder(makeSession(workspace, `of-${length}`), sessionTokens().take(`of-${length}`), {
    now: () => new Date(),
  });
  const usage = { tokens: 1, cost: null };
  const events: EventBody[] = [{ type: 'session.opened', format: 1, key: 'demo' }];
  while (events.length < length) {
    if (events.length % FOLD_EVERY === 1)
      events.push({ type: 'context.compacted', upto: events.length, summary: 'The words of many files were counted.' });
    const text = `Answer **${events.length}**: \`notes.txt\` has seven words.\n\n- first\n- second\n`;
    const calls = [{ id: 'c', name: 'shell', args: '{"command":"wc -w notes.txt"}' }];
    const call = `${events.length + 1}.0`;
    events.push(
      { type: 'model.answered', text, calls, usage, model: 'm', ms: 1, delivered: [], seen: 1 },
      { type: 'tool.started', call, name: 'shell', args: calls[0]?.args ?? '', replay: 'safe' },
      { type: 'tool.finished', call, ok: true, output: { text: '7 notes.txt\n'.repeat(20) }, ms: 1 },
    );
  }
  store.eventLog.append(events.splice(0, Math.max(0, length - SINCE_SNAPSHOT)));
  let session = emptySession(`of-${length}`);
  await store.eventLog.read((event) => {
    session = reduceEvent(session, event);
  });
  if (session.seq > 0)
    await store.snapshots.save(store.eventLog.position(), snapshotFromState({ session, left: null }));
  store.eventLog.append([
    ...events.slice(0, length - 1 - session.seq),
    { type: 'model.answered', text: 'The newest.', ...{ calls: [], usage, model: 'm', ms: 1, delivered: [], seen: 1 } },
  ]);
  await store.eventLog.sync();
  await store.close();
}

/** In ms since the start of the navigation, except `longestTask`, a duration, and the heap in bytes. */
type Shown = { firstPaint: number; newest: number; interactive: number; longestTask: number; heap: number };

/** Runs in the page: notes when the newest entry was painted, and long tasks. */
const WATCH = `
  const seen = { newest: undefined, tasks: [] };
  globalThis.seen = seen;
  new PerformanceObserver((list) => seen.tasks.push(...list.getEntries().map(({ startTime, duration }) => [startTime, duration])))
    .observe({ type: 'longtask', buffered: true });
  const look = () => {
    const last = document.querySelector('.transcript')?.lastElementChild;
    if (last?.textContent.includes('The newest.')) requestAnimationFrame(() => { seen.newest = performance.now(); });
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);`;
/** The page counts as idle after this long without a long task. */
const REST_MS = 1000;
const POLL_MS = 200;

async function show(opened: Page, url: string, length: number, n: number): Promise<Shown[]> {
  const shown: Shown[] = [];
  await opened.goto(`${url}/#/s/of-${length}`);
  await opened.addInitScript(WATCH);
  // The first load warms up the server and the browser.
  for (let index = 0; index <= n; index++) {
    await opened.reload();
    // Evaluated from outside, because the page's policy does not allow text as a script.
    while (
      !(await opened.evaluate(
        `Boolean(seen.newest) && performance.now() > ${REST_MS} + Math.max(seen.newest, ...seen.tasks.map(([at, took]) => at + took))`,
      ))
    )
      await sleep(POLL_MS);
    const one: Shown = await opened.evaluate(`({
      firstPaint: performance.getEntriesByName('first-contentful-paint')[0].startTime,
      newest: seen.newest,
      interactive: Math.max(seen.newest, ...seen.tasks.map(([at, took]) => at + took)),
      longestTask: Math.max(0, ...seen.tasks.map(([, took]) => took)),
      heap: performance.memory.usedJSHeapSize,
    })`);
    if (index > 0) shown.push(one);
  }
  return shown;
}
