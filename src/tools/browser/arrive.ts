import { setTimeout as sleep } from 'node:timers/promises';
import type { Desk } from './desk.ts';
import type { Tab } from './tabs.ts';

/** How long a page is given after something was done to it; each is a limit, not a wait. */
const REACT_MS = 250;
const LEAVE_MS = 15_000;
const LOAD_MS = 5000;
const QUIET_MS = 2000;
const BANNER_GOES_MS = 8000;
const LOOK_MS = 50;

/** A new document came: waits until it is loaded and the cookie banner that may come with it is answered, each for a limited time. */
export async function arrive(tab: Tab, { browser: { tabs }, signal, patience }: Desk): Promise<void> {
  await Promise.all([
    tab.page.waitForLoadState('load', { timeout: LOAD_MS, signal }).catch(() => undefined),
    sleep(patience.comesMs, undefined, { signal }),
  ]);
  await quiet(tab, signal);
  await holds(() => !tabs.isAnsweringBanner(tab), BANNER_GOES_MS, signal);
}

/** Something was done on a page: waits for what follows at once, be it another page or a few requests. */
export async function react(tab: Tab, before: number, desk: Desk): Promise<void> {
  const { signal } = desk;
  await sleep(REACT_MS, undefined, { signal });
  await holds(() => !tab.traffic.isLeaving, LEAVE_MS, signal);
  if (tab.traffic.arrived !== before) await arrive(tab, desk);
  else await quiet(tab, signal);
}

const quiet = (tab: Tab, signal: AbortSignal) => holds(() => tab.traffic.open === 0, QUIET_MS, signal);

async function holds(condition: () => boolean, ms: number, signal: AbortSignal): Promise<void> {
  for (let waited = 0; waited < ms && !condition(); waited += LOOK_MS) await sleep(LOOK_MS, undefined, { signal });
}
