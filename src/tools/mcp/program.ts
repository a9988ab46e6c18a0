import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync } from 'node:fs';
import { deserializeMessage, serializeMessage } from '@modelcontextprotocol/sdk/shared/stdio.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js';
import { errorCode, errorText, UserError } from '../../protocol/errors.ts';
import { coverInherited } from '../inherited.ts';
import { endGroup, groupRuns, until, withinLinger } from '../process-group.ts';
import type { Started } from '../sandbox-port.ts';
import { lineBuffer } from './line-buffer.ts';

/** Largest message a server may send, in bytes: about 12 MB of a file. */
export const LARGEST_MESSAGE = 16 * 1024 * 1024;
/** What a program may write to stdout that is no message, before it is taken for something else than a server. */
const MOST_NOISE = 256 * 1024;
/** How long it may take to end by itself once its input is closed. */
const PARTING_MS = 500;
/** Ends the group of a server whose daemon is gone: the end of the daemon closes its input. */
const GUARD = 'read -r _; sleep 1; kill -TERM "-$1" 2>/dev/null || exit 0; sleep 2; kill -KILL "-$1" 2>/dev/null';

/**
 * A transport over stdin and stdout of a program in a process group of its own. When it is closed, when the program ends, and
 * when the daemon is killed, the whole group ends. `heard` gets what it writes to stderr.
 */
export function programTransport(started: Started, heard: (text: string) => void): Transport {
  const child = spawnLater(started);
  const buffer = lineBuffer(LARGEST_MESSAGE);
  let noise = 0;
  let isDeaf = false;
  let closing: Promise<void> | null = null;
  const transport: Transport = { start, send, close: () => end(undefined) };

  async function start(): Promise<void> {
    const process = await child.start();
    process.stderr.on('data', (chunk: Buffer) => heard(chunk.toString('utf8')));
    process.stdout.on('data', take);
    for (const stream of [process.stdin, process.stdout, process.stderr]) stream.on('error', () => undefined);
    process.once('exit', (code, signal) => {
      void end(new Error(signal ? `it was ended by ${signal}` : `it ended with exit code ${code}`));
    });
  }

  function take(chunk: Buffer): void {
    try {
      for (const line of buffer.take(chunk)) if (!isDeaf) takeLine(line);
    } catch {
      stopListening(`it sent a message of more than ${LARGEST_MESSAGE} bytes`);
    }
  }

  /** A line that is no message is passed by, but not without end. */
  function takeLine(line: string): void {
    const message = messageIn(line);
    if (message) transport.onmessage?.(message);
    noise = message ? 0 : noise + line.length + 1;
    if (noise > MOST_NOISE) stopListening('it writes to stdout what are no MCP messages');
  }

  /** A flood would keep everybody from work until its source has ended. */
  function stopListening(why: string): void {
    isDeaf = true;
    child.hush();
    void end(new Error(why));
  }

  async function send(message: JSONRPCMessage): Promise<void> {
    child.write(serializeMessage(message));
  }

  /** `why` is told first: whoever waits for an answer is failed with it. */
  function end(why: Error | undefined): Promise<void> {
    if (!closing) {
      if (why) transport.onerror?.(why);
      closing = child.end().finally(() => transport.onclose?.());
    }
    return closing;
  }

  return transport;
}

function messageIn(line: string): JSONRPCMessage | undefined {
  if (!line.startsWith('{')) return undefined;
  try {
    return deserializeMessage(line);
  } catch {
    return undefined;
  }
}

/** What was to be sent cannot have reached the server. */
export class NotSent extends Error {}

function spawnLater(started: Started) {
  let running: ReturnType<typeof launch> | undefined;
  return {
    async start() {
      running = launch(started);
      try {
        await once(running.server, 'spawn');
      } catch (error) {
        running = undefined;
        started.release();
        throw notStarted(error, started);
      }
      running.guard(running.server.pid ?? 0);
      return running.server;
    },
    write(text: string): void {
      if (!running?.server.stdin.writable) throw new NotSent('it has ended');
      running.server.stdin.write(text);
    },
    hush(): void {
      running?.server.stdout.destroy();
    },
    async end(): Promise<void> {
      const group = running?.server.pid;
      if (!running || group === undefined) return;
      const { server, closed } = running;
      server.stdin.end();
      await until(() => server.exitCode !== null || server.signalCode !== null, PARTING_MS);
      if (groupRuns(group)) await endGroup(group, AbortSignal.abort());
      running.dismiss();
      await withinLinger(closed);
      started.release();
      for (const stream of [server.stdin, server.stdout, server.stderr]) stream.destroy();
    },
  };
}

function launch(started: Started) {
  const server = spawned(started);
  server.on('error', () => undefined);
  const closed = once(server, 'close').catch(() => undefined);
  let watching: ReturnType<typeof watch> | undefined;
  return {
    server,
    closed,
    guard(group: number) {
      watching = watch(group);
    },
    /** Before its input closes: it must not take the end of the server for the end of the daemon. */
    dismiss() {
      watching?.kill('SIGKILL');
      watching?.stdin.destroy();
    },
  };
}

/** It gets none of the descriptors that the daemon itself was started with. */
function spawned({ command, args, env, cwd, folder }: Started) {
  try {
    const pipes = ['pipe', 'pipe', 'pipe', folder ?? 'ignore'] as const;
    const stdio = [...pipes, ...coverInherited(pipes.length)];
    const child = spawn(command, args, { env, cwd, detached: true, stdio });
    const { stdin, stdout, stderr } = child;
    if (!stdin || !stdout || !stderr) throw new Error('A server without pipes.');
    return Object.assign(child, { stdin, stdout, stderr });
  } finally {
    if (folder !== undefined) closeSync(folder);
  }
}

function watch(group: number) {
  const guard = spawn('/bin/sh', ['-c', GUARD, 'agentd-mcp-guard', String(group)], {
    env: { PATH: '/usr/bin:/bin' },
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  // Without it the closed input of the server must do.
  guard.on('error', () => undefined);
  guard.stdin.on('error', () => undefined);
  guard.unref();
  return guard;
}

function notStarted(error: unknown, { command, env, cwd }: Started): UserError {
  const why =
    errorCode(error) === 'ENOENT'
      ? `it is not there. Looked for it on PATH=${env['PATH']}, from the folder ${cwd}`
      : errorText(error);
  return new UserError(`\`${command}\` cannot be started: ${why}.`);
}
