/**
 * The service worker of the page. It does one thing: a click on a notification opens the session in the page, even if
 * the page is in the background. It handles no requests, so the page always comes from the server.
 */
type OpenPage = { focus(): Promise<unknown>; postMessage(message: { session: string }): void };
type ClickEvent = Event & { notification: Notification; waitUntil(end: Promise<unknown>): void };
type WorkerScope = {
  addEventListener(type: 'notificationclick', run: (event: ClickEvent) => void): void;
  clients: {
    matchAll(options: { type: 'window'; includeUncontrolled: true }): Promise<OpenPage[]>;
    openWindow(url: string): Promise<unknown>;
  };
};

/** A TypeScript project has the types of a page or of a worker, not of both. */
const worker = globalThis as unknown as WorkerScope;

worker.addEventListener('notificationclick', (event) => {
  event.notification.close();
  event.waitUntil(showSession(String(event.notification.data.session)));
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
