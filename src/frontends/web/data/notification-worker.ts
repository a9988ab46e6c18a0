/**
 * The service worker of the page. It shows what the daemon pushes, even if no page is open, and a click on a
 * notification opens the session. It handles no requests, so the page always comes from the server.
 */
type OpenPage = { focus(): Promise<unknown>; postMessage(message: { session: string }): void };
type ClickEvent = Event & { notification: Notification; waitUntil(end: Promise<unknown>): void };
type PushEvent = Event & { data: { json(): Pushed } | null; waitUntil(end: Promise<unknown>): void };
/** As the daemon writes it. `link` answers a waiting call, without a login. */
type Pushed = { id: string; title: string; text: string; session: string | null; link?: string };
type WorkerScope = {
  addEventListener(type: 'notificationclick', run: (event: ClickEvent) => void): void;
  addEventListener(type: 'push', run: (event: PushEvent) => void): void;
  registration: { showNotification(title: string, options: NotificationOptions): Promise<void> };
  clients: {
    matchAll(options: { type: 'window'; includeUncontrolled: true }): Promise<OpenPage[]>;
    openWindow(url: string): Promise<unknown>;
  };
};

/** A TypeScript project has the types of a page or of a worker, not of both. */
const worker = globalThis as unknown as WorkerScope;

worker.addEventListener('push', (event) => {
  const { id, title, text, session, link } = event.data?.json() ?? { id: '', title: 'agentd', text: '', session: null };
  const options = { tag: session ?? id, body: text, icon: '/icon.svg', data: { session, link } };
  event.waitUntil(worker.registration.showNotification(title, options));
});

worker.addEventListener('notificationclick', (event) => {
  const { session, link } = event.notification.data as { session: string | null; link?: string };
  event.notification.close();
  event.waitUntil(link === undefined ? showSession(session ?? '') : worker.clients.openWindow(link));
});

async function showSession(session: string): Promise<void> {
  const [page] = await worker.clients.matchAll({ type: 'window', includeUncontrolled: true });
  if (!page) {
    await worker.clients.openWindow(`/#/s/${encodeURIComponent(session)}`);
    return;
  }
  page.postMessage({ session });
  await page.focus();
}
