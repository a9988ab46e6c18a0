import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { openClient } from '../../src/client/index.ts';
import { serveHttp } from '../../src/frontends/http/index.ts';
import type { EventBody } from '../../src/protocol/session/event.ts';
import { sessionPaths } from '../../src/store/index.ts';

export const opened: EventBody = { type: 'session.opened', format: 1, key: 'demo' };
export const progress = (count: number): EventBody[] =>
  Array.from({ length: count }, (_, n) => ({
    type: 'step.progressed',
    step: '第一步',
    progress: { current: n, total: count },
  }));

/** A workspace with one session, its server in this process, and the server's internal errors. */
export async function servedSession() {
  const folder = fs.mkdtempSync(join(tmpdir(), 'agentd-stream-'));
  const client = openClient(join(folder, 'ws'));
  await client.send('demo', { text: 'x' });
  const paths = sessionPaths(client.paths.session('demo'));
  const complaints: string[] = [];
  const server = await serveHttp(client, { port: 0, complain: (text) => complaints.push(text) });
  onTestFinished(async () => {
    await server.close();
    fs.rmSync(folder, { recursive: true, force: true });
  });
  const headers = { authorization: `Bearer ${await client.accessToken()}` };
  return { client, server, paths, complaints, headers, url: `${server.url}/api/sessions/demo/events` };
}

type OpenHandles = { descriptors: number; watches: number };

/** Waits until a process, by default this one, holds no more than given resources. */
export async function waitForHandles(most: OpenHandles, pid: number | 'self' = 'self'): Promise<OpenHandles> {
  for (;;) {
    const now = openHandles(pid);
    if (now.descriptors <= most.descriptors && now.watches <= most.watches) return now;
    await new Promise((later) => setTimeout(later, 20));
  }
}

/** Open descriptors and inotify watches. */
function openHandles(pid: number | 'self'): OpenHandles {
  const names = fs.readdirSync(`/proc/${pid}/fd`);
  const infos = names.map((name) => {
    try {
      return fs.readFileSync(`/proc/${pid}/fdinfo/${name}`, 'utf8');
    } catch {
      return '';
    }
  });
  return { descriptors: names.length, watches: infos.join('\n').split('\ninotify ').length - 1 };
}
