/**
 * Sends one message, waits for its reply, prints its text and marks it as read.
 * Usage: npx tsx send.ts <session folder> <text>
 */
import { randomUUID } from 'node:crypto';
import { link, mkdir, open, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

/** Drops a message, complete and durable when this returns. Returns the name of its reply. */
async function send(session: string, text: string): Promise<string> {
  const id = randomUUID();
  const name = `${id}.msg.json`;
  const inbox = join(session, 'inbox');
  const staged = join(inbox, '.tmp', name);
  await mkdir(join(inbox, '.tmp'), { recursive: true });
  const file = await open(staged, 'wx');
  try {
    await file.writeFile(JSON.stringify({ id, text }));
    await file.sync();
  } finally {
    await file.close();
  }
  // A link fails if the name is taken; a rename would replace another sender's message.
  await link(staged, join(inbox, name));
  // The daemon may have removed this name already.
  await rm(staged, { force: true });
  await syncFolder(inbox);
  return name;
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/** The part of a reply that these examples need; docs/formats.md has all of it. */
type Reply = { status: string; text: string };

/** The reply of that name. Replies appear atomically, so an existing one can be read at once. */
async function waitForReply(session: string, name: string, seconds: number): Promise<Reply> {
  const path = join(session, 'outbox', name);
  const deadline = performance.now() + seconds * 1000;
  for (;;) {
    try {
      return JSON.parse(await readFile(path, 'utf8'));
    } catch (error) {
      const isMissing = error instanceof Error && 'code' in error && error.code === 'ENOENT';
      if (!isMissing) throw error;
      if (performance.now() > deadline) throw new Error(`No reply yet; it will be in ${path}`);
    }
    await pause(200);
  }
}

const [session, text] = process.argv.slice(2);
if (session === undefined || text === undefined) throw new Error('Usage: send.ts <session folder> <text>');
const name = await send(session, text);
const reply = await waitForReply(session, name, 600);
console.log(reply.text);
await rename(join(session, 'outbox', name), join(session, 'outbox', 'read', name));
