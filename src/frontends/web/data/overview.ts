import { computed, effect, signal } from '@preact/signals';
import { isLoggedIn, requestJson } from './api.ts';
import { openSession, type Standing } from './session.ts';

/** What the page uses of an entry of `GET /api/sessions`. */
export type SessionEntry = {
  name: string;
  parent: string | null;
  title: string | null;
  standing: Standing;
  plan: { completed: number; total: number } | null;
  asks: { text: string } | null;
  changed: string | null;
  inbox: number;
  problem: string | null;
  settings: string | null;
};

export type Route = { page: 'list' } | { page: 'new' } | { page: 'session'; name: string };

export const route = signal<Route>(readRoute());
export const sessions = signal<readonly SessionEntry[] | undefined>(undefined);
export const hasDaemon = signal(true);
export const filter = signal('');

/** What the person has seen: the time of the last change of each session, kept in this browser. */
const STORED_SEEN = 'agentd.seen';
export const seen = signal<Readonly<Record<string, string>>>(readSeen());

export type SessionGroup = 'needsYou' | 'running' | 'others';

/**
 * The sessions to list by what they want from a person, the last changed first; child sessions only where they wait.
 */
export const groups = computed<ReadonlyArray<readonly [SessionGroup, readonly SessionEntry[]]>>(() => {
  const wanted = filter.value.trim().toLowerCase();
  const listed = (sessions.value ?? [])
    .filter((one) => one.parent === null || groupOf(one) === 'needsYou')
    .filter((one) => `${one.name}\n${one.title ?? ''}`.toLowerCase().includes(wanted))
    .sort((a, b) => (b.changed ?? '').localeCompare(a.changed ?? ''));
  return (['needsYou', 'running', 'others'] as const)
    .map((group) => [group, listed.filter((one) => groupOf(one) === group)] as const)
    .filter(([, entries]) => entries.length > 0);
});

/** How many sessions wait for a person. */
export const waitingCount = computed(() => (sessions.value ?? []).filter((one) => groupOf(one) === 'needsYou').length);

function groupOf({ standing, settings }: SessionEntry): SessionGroup {
  if (standing === 'waiting' || standing === 'unreadable' || settings !== null) return 'needsYou';
  return standing === 'running' ? 'running' : 'others';
}

export const isUnread = ({ name, changed }: SessionEntry): boolean =>
  changed !== null && (seen.value[name] ?? '') < changed;

export const hrefOf = (name: string): string => `#/s/${encodeURIComponent(name)}`;

/** Goes to an address of the page, at once: the next key may come before the browser reports the change. */
export function goTo(hash: string): void {
  location.hash = hash;
  route.value = readRoute();
}

function readRoute(): Route {
  const name = /^#\/s\/(.+)$/.exec(location.hash)?.[1];
  try {
    if (name !== undefined) return { page: 'session', name: decodeURIComponent(name) };
  } catch {
    // Not an address that this page has made.
  }
  return { page: location.hash === '#/new' ? 'new' : 'list' };
}

function readSeen(): Record<string, string> {
  try {
    return JSON.parse(localStorage.getItem(STORED_SEEN) ?? '{}');
  } catch {
    return {};
  }
}

/** Between two looks at the list, in ms, and how many times as long as the look itself it is at least. */
const LOOK_MS = 2000;
const LOOK_SHARE = 10;

/**
 * Follows the address and the list of sessions for as long as the page is open; a page in the background does not
 * ask.
 */
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
    if (isLoggedIn.value) void look();
  });
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) void look();
  });
}

let timer: ReturnType<typeof setTimeout> | undefined;

async function look(): Promise<void> {
  clearTimeout(timer);
  const began = performance.now();
  if (isLoggedIn.value && !document.hidden) {
    try {
      const [all, ready] = await Promise.all([requestJson<SessionEntry[]>('/api/sessions'), fetch('/readyz')]);
      sessions.value = all;
      hasDaemon.value = ready.ok;
    } catch {
      // The page says that it has no connection, and looks again.
    }
  }
  clearTimeout(timer);
  timer = setTimeout(() => void look(), Math.max(LOOK_MS, LOOK_SHARE * (performance.now() - began)));
}
