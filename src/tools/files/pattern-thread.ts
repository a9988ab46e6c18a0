import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { z } from 'zod';
import { errorText, UserError } from '../../base/user-error.ts';

/**
 * Plain JavaScript as text: a worker file would need one path in the sources and another in the compiled package, in
 * different languages.
 */
const THREAD_SOURCE = `
  const { parentPort } = require('node:worker_threads');
  parentPort.on('message', ({ pattern, texts, most }) => {
    const hits = [];
    for (let at = 0; at < texts.length && hits.length < most; at++) {
      const found = pattern.exec(texts.at(at));
      if (found) hits.push({ at, start: found.index });
    }
    parentPort.postMessage(hits);
  });
`;

/** `at`: index of the text; `start`: where in it the first match begins. */
const PatternMatch = z.object({ at: z.int(), start: z.int() });
type PatternMatch = z.infer<typeof PatternMatch>;

/**
 * Runs regular expressions in a separate thread, so endless backtracking costs that thread, not the daemon. One request
 * at a time; it rejects when the signal aborts, and the thread must then be closed.
 */
export type PatternThread = {
  /** The first `most` texts that match, each once. The pattern must have neither of the flags g and y. */
  matches(pattern: RegExp, texts: string[], most?: number): Promise<PatternMatch[]>;
  close(): Promise<void>;
};

/** Starts the thread. When `signal` aborts, the current request rejects with its reason. */
export function openPatternThread(signal: AbortSignal): PatternThread {
  const worker = new Worker(THREAD_SOURCE, { eval: true, execArgv: [], env: {} });
  // An error of the thread rejects the current request; without a listener it would also end the daemon.
  worker.on('error', () => {});
  return {
    async matches(pattern, texts, most = Number.POSITIVE_INFINITY) {
      signal.throwIfAborted();
      const answer = once(worker, 'message', { signal });
      worker.postMessage({ pattern, texts, most });
      const [hits] = await answer;
      return z.array(PatternMatch).parse(hits);
    },
    async close() {
      await worker.terminate();
    },
  };
}

/**
 * Compiles a pattern written by a person or a model: with `u`, for \p{…}; without it if only the flag makes the pattern
 * invalid, as for a needless backslash. `what` names it in the error.
 */
export function compilePattern(source: string, what: string): RegExp {
  try {
    return new RegExp(source, 'u');
  } catch {
    try {
      return new RegExp(source);
    } catch (error) {
      throw new UserError(`${what} is not a JavaScript regular expression: ${errorText(error)}.`);
    }
  }
}

const TOKEN = /\*\*\/|\*\*|\*|\?|\{[^{}]*\}|[^*?{]+|\{/g;

/**
 * A glob as a regular expression over whole paths: `*` and `?` stay within a name, `**` crosses folders, `{a,b}` is an
 * alternative. Without a slash it matches the name alone, in any folder. Run it only in a thread that can be stopped:
 * many stars are slow.
 */
export function globToRegExp(glob: string): RegExp {
  const body = (glob.match(TOKEN) ?? []).map(tokenPattern).join('');
  return new RegExp(`^${glob.includes('/') ? '' : '(?:.*/)?'}${body}$`, 's');
}

function tokenPattern(token: string): string {
  if (token === '**/') return '(?:.*/)?';
  if (token === '**') return '.*';
  if (token === '*') return '[^/]*';
  if (token === '?') return '[^/]';
  if (token.startsWith('{') && token.endsWith('}')) {
    return `(?:${token
      .slice(1, -1)
      .split(',')
      .map((choice) => (choice.match(TOKEN) ?? []).map(tokenPattern).join(''))
      .join('|')})`;
  }
  return token.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
}
