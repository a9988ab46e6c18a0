import { computed, effect, signal } from '@preact/signals';
import type { SessionOverview } from '../../../client/inspect/session-overview.ts';
import { formatDay, words } from '../text/wording.ts';
import { ApiProblem, isLoggedIn, requestJson } from './api.ts';
import { openSession } from './session.ts';

/** The views of a session, in the order of their tabs. */
export const TABS = ['run', 'files', 'versions', 'details', 'browser'] as const;
export type SessionTab = (typeof TABS)[number];

/**
 * `path`: a file below `work/`, or a folder, which ends in a slash; '' is `work/` itself. Where the plan is shown, the
 * selected step.
 */
export type Route =
  | { page: 'list' | 'new' | 'details' }
  | { page: 'session'; name: string; tab: SessionTab; path: string };

export const route = signal<Route>(readRoute());
export const sessions = signal<readonly SessionOverview[] | undefined>(undefined);
/** Why the list cannot be read. */
export const listProblem = signal('');
export const hasDaemon = signal(true);
export const filter = signal('');

/** What the person has seen: the last change of each session, stored in this browser. */
const STORED_SEEN = 'agentd.seen';
export const seen = signal<Readonly<Record<string, string>>>(readStored(STORED_SEEN, {}));

const GROUPS = ['needsYou', 'running'] as const;
type SessionGroup = (typeof GROUPS)[number];

/**
 * The sessions by what they need from a person, then by the day of their last change, newest first; child sessions only
 * if they wait. Each group with its title.
 */
export const groups = computed<ReadonlyArray<readonly [title: string, readonly SessionOverview[]]>>(() => {
  const wanted = filter.value.toLowerCase().split(/\s+/);
  const listed = (sessions.value ?? [])
    .filter(({ parent, standing }) => parent === null || standing === 'waiting' || standing === 'unreadable')
    .filter((one) => wanted.every((word) => searchText(one).includes(word)))
    .sort((a, b) => (orderOf(a) < orderOf(b) ? 1 : -1));
  const days = new Map<string, string>();
  const dayOf = (at: string): string => {
    const day = new Date(at).toDateString();
    return days.get(day) ?? days.set(day, formatDay(at)).get(day) ?? '';
  };
  const found = new Map<string, SessionOverview[]>(GROUPS.map((group) => [words.value[group], []]));
  for (const one of listed) {
    const group = groupOf(one);
    const title = group ? words.value[group] : one.changed === null ? words.value.states.none : dayOf(one.changed);
    const entries = found.get(title) ?? [];
    entries.push(one);
    found.set(title, entries);
  }
  return [...found].filter(([, entries]) => entries.length > 0);
});

/** An answer is wanted before a repair or "continue". */
const orderOf = ({ standing, changed }: SessionOverview): string => `${standing === 'waiting'} ${changed ?? ''}`;

/** How many sessions wait for a person. */
export const waitingCount = computed(() => (sessions.value ?? []).filter((one) => groupOf(one) === 'needsYou').length);

/** The text that is searched: everything the list shows of a session. */
const searchText = ({ label, title, standing, waits, plan_problem }: SessionOverview): string =>
  [label, title, words.value.states[standing], waits?.why, plan_problem].join('\n').toLowerCase();

function groupOf({ standing, waits, plan_problem }: SessionOverview): SessionGroup | undefined {
  if (plan_problem !== null || (waits !== null && waits.needs !== 'time')) return 'needsYou';
  return standing === 'running' ? 'running' : undefined;
}

export const isUnread = ({ name, changed }: SessionOverview): boolean =>
  changed !== null && (seen.value[name] ?? '') < changed;

/** The label of a session, or its name if the label is unknown. */
export const labelOf = (name: string): string => sessions.value?.find((one) => one.name === name)?.label ?? name;

export const hrefOf = (name: string, tab: SessionTab = 'run', path = ''): string =>
  [
    `#/s/${encodeURIComponent(name)}`,
    ...(tab === 'run' && path === '' ? [] : [tab, ...path.split('/').map(encodeURIComponent)]),
  ].join('/');

/** Goes to a route and applies it at once, because the next key may come before the browser reports the change. */
export function goTo(hash: string): void {
  location.hash = hash;
  route.value = readRoute();
}

function readRoute(): Route {
  const [, name, wanted, path = ''] = /^#\/s\/([^/]+)(?:\/(\w+)\/?(.*))?$/.exec(location.hash) ?? [];
  const tab = TABS.find((one) => one === wanted) ?? 'run';
  try {
    if (name !== undefined)
      return { page: 'session', name: decodeURIComponent(name), tab, path: decodeURIComponent(path) };
  } catch {
    // The hash was not written by this page.
  }
  return { page: location.hash === '#/new' ? 'new' : location.hash === '#/details' ? 'details' : 'list' };
}

function readStored<T>(key: string, otherwise: T): T {
  try {
    return JSON.parse(localStorage.getItem(key) ?? '') ?? otherwise;
  } catch {
    return otherwise;
  }
}

/** How often the list is polled; in the background, the title still shows how many sessions wait. */
const POLL_MS = { shown: 2000, hidden: 10_000 };
/** The first poll is delayed, so that the session on screen is read before the list. */
const SESSION_FIRST_MS = 150;
/** Pauses between polls last at least this many times as long as a poll. */
const MIN_PAUSE_FACTOR = 10;

/** Follows the URL and the list of sessions for as long as the page is open. */
export function startOverview(): void {
  addEventListener('hashchange', () => {
    route.value = readRoute();
  });
  effect(() => {
    const { name, view } = openSession.value ?? {};
    const changed = sessions.value?.find((one) => one.name === name)?.changed;
    if (name === undefined || !view || !changed || (seen.peek()[name] ?? '') >= changed) return;
    seen.value = { ...seen.peek(), [name]: changed };
    localStorage.setItem(STORED_SEEN, JSON.stringify(seen.value));
  });
  effect(() => {
    clearTimeout(timer);
    if (isLoggedIn.value) timer = setTimeout(() => void look(), openSession.peek() ? SESSION_FIRST_MS : 0);
  });
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) void look();
  });
}

let timer: ReturnType<typeof setTimeout> | undefined;

async function look(): Promise<void> {
  clearTimeout(timer);
  const began = performance.now();
  if (isLoggedIn.value) {
    try {
      const [all, ready] = await Promise.all([requestJson<SessionOverview[]>('/api/sessions'), fetch('/readyz')]);
      sessions.value = all;
      hasDaemon.value = ready.ok;
      listProblem.value = '';
    } catch (error) {
      // The next poll tries again; that there is no connection is shown anyway.
      listProblem.value = error instanceof ApiProblem ? error.message : '';
    }
  }
  clearTimeout(timer);
  timer = setTimeout(
    () => void look(),
    Math.max(document.hidden ? POLL_MS.hidden : POLL_MS.shown, MIN_PAUSE_FACTOR * (performance.now() - began)),
  );
}
