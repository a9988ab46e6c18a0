import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { UserError } from '../../../base/user-error.ts';
import type { Client } from '../../../client/index.ts';
import { commandLine } from '../../../client/sessions/client-errors.ts';
import { createLoginCode, proofOf } from '../../http/access/credentials.ts';

/** Programs that open an address in the browser of the desktop. */
const OPENERS: Partial<Record<NodeJS.Platform, string[]>> = {
  darwin: ['open'],
  win32: ['rundll32', 'url.dll,FileProtocolHandler'],
};
const OPENER = ['xdg-open'];
/** For the answer of a server on this machine, in ms. */
const ANSWER_MS = 3000;

const Proof = z.object({ proof: z.string() });

/**
 * The address at which the page of a workspace logs in by itself: to keep, and to hand to a program, which holds once.
 * Throws UserError if no server of the workspace answers.
 */
export async function pageAddress(client: Client, port: number): Promise<{ address: string; once: string }> {
  const token = await client.accessToken();
  const url = `http://127.0.0.1:${port}/`;
  await checkServer(url, token, client.paths.root);
  return { address: `${url}#token=${token}`, once: `${url}#token=${createLoginCode(token)}` };
}

/** The token is for a server of this workspace alone: whatever else listens on the port does not get it. */
async function checkServer(url: string, token: string, root: string): Promise<void> {
  const challenge = randomBytes(32).toString('base64url');
  const todo = `Start one: ${commandLine(root, ['serve'])}, or name its port: --port`;
  let answer: unknown;
  try {
    const response = await fetch(`${url}login?challenge=${challenge}`, { signal: AbortSignal.timeout(ANSWER_MS) });
    answer = await response.json();
  } catch {
    throw new UserError(`No server of agentd answers at ${url}. ${todo}`);
  }
  if (Proof.safeParse(answer).data?.proof !== proofOf(token, challenge))
    throw new UserError(`What answers at ${url} is not a server of the workspace ${root}. ${todo}`);
}

/** Opens an address in the browser of the desktop; false if there is nothing to open it with. */
export function openInBrowser(address: string): Promise<boolean> {
  const [program = '', ...words] = OPENERS[process.platform] ?? OPENER;
  return new Promise((done) => {
    const child = spawn(program, [...words, address], { stdio: 'ignore', detached: true });
    child.once('error', () => done(false));
    child.once('spawn', () => {
      child.unref();
      done(true);
    });
  });
}
