import { effect, signal } from '@preact/signals';
import { legible } from '../../../base/strings.ts';
import type { SessionOverview } from '../../../client/inspect/session-overview.ts';
import type { SessionStanding } from '../../../protocol/session/reply.ts';
import { words } from '../text/wording.ts';
import { requestJson, sessionPath } from './api.ts';
import { goTo, hrefOf, sessions } from './overview.ts';
import type { SessionView } from './session.ts';

/** `blocked`: they are blocked in the browser's settings. `insecure`: the page is not on localhost or HTTPS. */
export type NotificationState = 'off' | 'on' | 'blocked' | 'insecure';

const WORKER = '/notification-worker.js';
const STORED = 'agentd.notifications';

type ScriptAddress = { createScriptURL(url: string): string };
type PolicyFactory = { createPolicy(name: string, rules: ScriptAddress): ScriptAddress };

/** The only URL that may become a script here. The content security policy allows no other trusted-types policy. */
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

/** Asks the browser for permission only on this click. Turning notifications off removes the service worker. */
export async function toggleNotifications(): Promise<void> {
  if (notificationState.value === 'on') {
    localStorage.removeItem(STORED);
    const registration = await navigator.serviceWorker.getRegistration();
    await stopPush(registration).catch(() => {});
    for (const shown of (await registration?.getNotifications()) ?? []) shown.close();
    await registration?.unregister();
  } else if ((await Notification.requestPermission()) === 'granted') {
    localStorage.setItem(STORED, 'on');
    // Some browsers wait for ever where their push service cannot be reached.
    void startPush().catch(() => {});
  }
  notificationState.value = readState();
}

const register = (): Promise<ServiceWorkerRegistration> =>
  navigator.serviceWorker.register((scripts?.createScriptURL(WORKER) ?? WORKER) as string);

/** Whether the daemon sends to this browser, so that the page need not be open. */
export const isPushed = signal(false);

/** Lets the daemon send to this browser. Where that cannot be, the page shows notifications while it is open. */
async function startPush(): Promise<void> {
  await register();
  try {
    const { pushManager } = await navigator.serviceWorker.ready;
    const { publicKey: applicationServerKey } = await requestJson<{ publicKey: string }>('/api/push');
    const subscription =
      (await pushManager.getSubscription()) ??
      (await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey }));
    await requestJson('/api/push', { method: 'PUT', body: { subscription, active: true } });
    isPushed.value = true;
  } catch {
    isPushed.value = false;
  }
}

async function stopPush(registration: ServiceWorkerRegistration | undefined): Promise<void> {
  isPushed.value = false;
  const subscription = await registration?.pushManager.getSubscription();
  if (!subscription) return;
  await subscription.unsubscribe();
  await requestJson('/api/push', { method: 'PUT', body: { subscription, active: false } });
}

/** The states that a person is notified of. */
const NEEDS_PERSON: ReadonlySet<SessionStanding> = new Set<SessionStanding>([
  'waiting',
  'paused',
  'failed',
  'unreadable',
]);
/** The most characters of the reason that are shown. */
const MOST_CHARS = 300;
/** No notification for runs that a person paused or stopped. */
const ASKED_FOR = new Set(['asked', 'stopped']);

/** Shows a notification when a session begins to need a person, unless the page is in the foreground. */
export function startNotifications(): void {
  if (notificationState.value === 'on') void startPush().catch(() => {});
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
 * Identifies why a session needs a person; '' if it does not. It includes the time of the change, because between two
 * polls the session may have been answered and asked again.
 */
const needOf = ({ standing, changed }: SessionOverview): string =>
  NEEDS_PERSON.has(standing) ? `${standing} ${changed}` : '';

/** What each session has been notified of. Its log also grows for other reasons, such as the reply to a `/status`. */
const notified = new Map<string, string>();

/** Shows what a session needs now, or removes the notification if it no longer needs anything. */
async function update(entry: SessionOverview): Promise<void> {
  const { name, label, title, standing, problem } = entry;
  const isInFront = !document.hidden && document.hasFocus();
  if (isInFront || needOf(entry) === '') return takeBack(name);
  if (isPushed.peek()) return;
  const { run_end: runEnd, question, waits } = await requestJson<SessionView>(sessionPath(name));
  if (standing !== 'waiting' && runEnd && ASKED_FOR.has(runEnd.reason)) return;
  const need = JSON.stringify([standing, problem, runEnd]);
  if (notified.get(name) === need) return;
  notified.set(name, need);
  const { states, wantsApproval } = words.value;
  const why = problem ?? question?.text ?? (waits?.what === 'approval' ? wantsApproval : runEnd?.text);
  const registration = await navigator.serviceWorker.ready;
  await registration.showNotification(`${title ?? label}: ${states[standing]}`, {
    ...{ tag: name, lang: words.value.tag, icon: '/icon.svg', data: { session: name } },
    ...(why !== undefined && { body: legible(why.slice(0, MOST_CHARS)) }),
  });
}

async function takeBack(name: string): Promise<void> {
  notified.delete(name);
  const registration = await navigator.serviceWorker.ready;
  for (const shown of await registration.getNotifications({ tag: name })) shown.close();
}
