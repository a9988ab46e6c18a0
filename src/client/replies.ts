import * as fs from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../protocol/errors.ts';
import { Reply } from '../protocol/reply.ts';
import { parseJson } from '../store/complaints.ts';
import { ifThere } from '../store/errors.ts';
import type { SessionPaths } from '../store/layout.ts';
import { changesIn } from './changes.ts';
import { WaitedTooLong } from './errors.ts';

/** Milliseconds; without `timeoutMs` it waits for ever. */
export type Waiting = { timeoutMs?: number | undefined; signal?: AbortSignal | undefined };

/** The reply of that name, in `outbox/` or, where a frontend took it, in `outbox/read/`. Replies come whole or not at all. */
function readReply(paths: SessionPaths, name: string): Reply | undefined {
  for (const folder of [paths.outbox, paths.outboxRead]) {
    const path = join(folder, name);
    const text = ifThere(() => fs.readFileSync(path, 'utf8'));
    if (text === undefined) continue;
    const reply = Reply.safeParse(/\.json$/i.test(name) ? jsonOf(text) : frontMatterOf(text));
    if (reply.success) return reply.data;
    throw new UserError(`${path} is not a reply of agentd: ${reply.error.issues[0]?.message}. Was it changed by hand?`);
  }
  return undefined;
}

/** Waits for a reply. Throws `WaitedTooLong` after `timeoutMs`, the signal's reason where it was aborted. */
export async function waitForReply(paths: SessionPaths, name: string, { timeoutMs, signal }: Waiting): Promise<Reply> {
  const changes = changesIn([paths.outbox]);
  const deadline = performance.now() + (timeoutMs ?? Number.POSITIVE_INFINITY);
  try {
    for (;;) {
      const reply = readReply(paths, name);
      if (reply) return reply;
      signal?.throwIfAborted();
      const left = deadline - performance.now();
      if (left <= 0) throw new WaitedTooLong(`No reply within ${(timeoutMs ?? 0) / 1000} s. ${LATER}`);
      await changes.next(left < 1000 ? anyOf(signal, AbortSignal.timeout(Math.ceil(left))) : signal);
    }
  } finally {
    changes.close();
  }
}

const LATER = 'The message is not lost; its reply will be in outbox/.';

const anyOf = (...signals: Array<AbortSignal | undefined>) =>
  AbortSignal.any(signals.filter((one) => one !== undefined));

function jsonOf(text: string): unknown {
  const parsed = parseJson(text);
  return parsed.ok ? parsed.value : undefined;
}

/** The facts of a Markdown reply: each line of its front matter is a word or JSON. */
function frontMatterOf(file: string): unknown {
  const [, head, text] = /^---\n([\s\S]*?)\n---\n\n([\s\S]*)\n$/.exec(file) ?? [];
  if (head === undefined) return undefined;
  const facts = head.split('\n').map((line): [string, unknown] => {
    const [, key = '', value = ''] = /^(\w+): (.*)$/.exec(line) ?? [];
    const parsed = parseJson(value);
    return [key, parsed.ok ? parsed.value : value];
  });
  return { ...Object.fromEntries(facts), text };
}
