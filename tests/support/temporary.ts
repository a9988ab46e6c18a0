import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import type { Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { type ScriptEntry, startOpenAI } from './openai-server.ts';

/** An empty folder, by its real path, that goes with the test. */
export function temporaryFolder(name: string): string {
  const folder = mkdtempSync(join(realpathSync(tmpdir()), `agentd-${name}-`));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 }));
  return folder;
}

/** The port of the loopback at which it listens from now on, until the test is over; whoever is connected then is cut off. */
export async function listen(server: Server & { closeAllConnections?(): void }): Promise<number> {
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  onTestFinished(() => {
    server.closeAllConnections?.();
    server.close();
  });
  const address = server.address();
  return typeof address === 'object' && address ? address.port : 0;
}

/** An endpoint with this script that ends with the test, and the flags with which a daemon asks it. */
export async function modelServer(script: ScriptEntry[] | ScriptEntry) {
  const server = await startOpenAI(script);
  onTestFinished(() => server.close());
  return { ...server, flags: ['--base-url', server.url, '--model', 'm'] };
}
