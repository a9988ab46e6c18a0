import { effect, signal } from '@preact/signals';
import type { SessionStanding } from '../../../protocol/session/reply.ts';
import { words } from '../text/wording.ts';
import { requestJson, sessionPath } from './api.ts';
import { goTo, hrefOf, type SessionEntry, sessions } from './overview.ts';
import type { SessionView } from './session.ts';

/** `blocked`: the browser was told to allow none here. `insecure`: it has none for this address. */
export type NotificationState = 'off' | 'on' | 'blocked' | 'insecure';

const WORKER = '/notification-worker.js';
const STORED = 'agentd.notifications';

type ScriptAddress = { createScriptURL(url: string): string };
type PolicyFactory = { createPolicy(name: string, rules: ScriptAddress): ScriptAddress };

/** The one address that may become a script here; the content security policy admits no second policy. */
const scripts: ScriptAddress | undefined = (globalThis as { trustedTypes?: PolicyFactory }).trustedTypes?.createPolicy(
  'agentd-worker',
  {
    createScriptURL(url) {
      if (url !== WORKER) throw new TypeError(`${url} is not a script of this page.`);
      return url;
    },
  },
);

export const notificationState = signal<NotificationState>(readState());

function readState(): NotificationState {
  if (!isSecureContext || !('serviceWorker' in navigator) || !('Notification' in globalThis)) return 'insecure';
  if (Notification.permission === 'denied') return 'blocked';
  return Notification.permission === 'granted' && localStorage.getItem(STORED) !== null ? 'on' : 'off';
}

/** Asks the browser once it is clicked, and only then; turned off, nothing of it stays. */
export async function toggleNotifications(): Promise<void> {
  if (notificationState.value === 'on') {
    localStorage.removeItem(STORED);
    const registration = await navigator.serviceWorker.getRegistration();
    for (const shown of (await registration?.getNotifications()) ?? []) shown.close();
    await registration?.unregister();
  } else if ((await Notification.requestPermission()) === 'granted') {
    localStorage.setItem(STORED, 'on');
    await register();
  }
  notificationState.value = readState();
}

const register = (): Promise<ServiceWorkerRegistration> =>
  navigator.serviceWorker.register((scripts?.createScriptURL(WORKER) ?? WORKER) as string);

/** What a session may begin to be that a person wants to hear of. */
const NEEDS_PERSON: ReadonlySet<SessionStanding> = new Set<SessionStanding>([
  'waiting',
  'paused',
  'failed',
  'unreadable',
]);
/** As much as is shown of why. */
const MOST_CHARS = 300;
/** A run that a person has paused is no news to them. */
const ASKED_FOR = new Set(['asked', 'stopped']);

/** Shows a notification when a session begins to need a person, unless the page is in front of them. */
export function startNotifications(): void {
  if (notificationState.value === 'on') void register().catch(() => {});
  if (notificationState.value !== 'insecure')
    navigator.serviceWorker.addEventListener('message', ({ data }) => {
      if (typeof data?.session === 'string') goTo(hrefOf(data.session));
    });
  let known: Map<string, string> | undefined;
  effect(() => {
    if (!sessions.value) return;
    const before = known;
    known = new Map(sessions.value.map((entry) => [entry.name, needOf(entry)]));
    if (!before || notificationState.peek() !== 'on') return;
    for (const entry of sessions.value) {
      if (needOf(entry) === (before.get(entry.name) ?? '')) continue;
      void update(entry).catch(() => {});
    }
  });
}

/**
 * What a session needs a person for, as a name of this one need: between two looks it may have got its answer and asked
 * again. '' where it needs nobody.
 */
const needOf = ({ standing, changed }: SessionEntry): string =>
  NEEDS_PERSON.has(standing) ? `${standing} ${changed}` : '';

/** Shows what a session needs now, or takes back what it needed before. */
async function update(entry: SessionEntry): Promise<void> {
  const { name, label, title, standing, problem } = entry;
  const isInFront = !document.hidden && document.hasFocus();
  if (isInFront || needOf(entry) === '') return takeBack(name);
  const { run_end: runEnd, question } = await requestJson<SessionView>(sessionPath(name));
  if (standing !== 'waiting' && runEnd && ASKED_FOR.has(runEnd.reason)) return;
  const { standings, wantsApproval } = words.value;
  const isCall = standing === 'waiting' && runEnd?.reason === 'approval';
  const why = problem ?? question?.text ?? (isCall ? wantsApproval : runEnd?.text);
  const registration = await navigator.serviceWorker.ready;
  await registration.showNotification(`${title ?? label}: ${standings[standing]}`, {
    ...{ tag: name, lang: words.value.tag, icon: '/icon.svg', data: { session: name } },
    ...(why !== undefined && { body: why.slice(0, MOST_CHARS) }),
  });
}

async function takeBack(name: string): Promise<void> {
  const registration = await navigator.serviceWorker.ready;
  for (const shown of await registration.getNotifications({ tag: name })) shown.close();
}
