import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync } from 'node:fs';
import {
  deserializeMessage,
  type JSONRPCMessage,
  serializeMessage,
  type Transport,
} from '@modelcontextprotocol/client';
import { attempt, errorCode, errorText, UserError } from '../../base/user-error.ts';
import {
  endGroup,
  guardGroup,
  isGroupRunning,
  settlesWithinLinger,
  startedChild,
  waitUntil,
} from '../process/process-group.ts';
import { coverInheritedDescriptors } from '../process/supervisor.ts';
import type { ServerLaunch } from '../sandbox/sandbox-backend.ts';

/** Largest message a server may send, in bytes: about 12 MB of a file. */
export const MAX_MESSAGE_BYTES = 16 * 1024 * 1024;
/** How much a program may write to stdout that is not a message before it is considered not to be a server. */
const MAX_NOISE_BYTES = 256 * 1024;
/** How long it may take to exit once its input is closed. */
const EXIT_MS = 500;

/**
 * A transport over stdin and stdout of a program in its own process group. The whole group ends when the transport is
 * closed, when the program ends, and when the daemon is killed. `onStderr` receives what it writes to stderr.
 */
export function stdioTransport(started: ServerLaunch, onStderr: (text: string) => void): Transport {
  const child = serverProcess(started);
  const buffer = lineBuffer(MAX_MESSAGE_BYTES);
  let noise = 0;
  let ignoresOutput = false;
  let closing: Promise<void> | null = null;
  const transport: Transport = { start, send, close: () => end(undefined) };

  async function start(): Promise<void> {
    const process = await child.start();
    process.stderr.on('data', (chunk: Buffer) => onStderr(chunk.toString('utf8')));
    process.stdout.on('data', take);
    for (const stream of [process.stdin, process.stdout, process.stderr]) stream.on('error', () => undefined);
    process.once('exit', (code, signal) => {
      void end(new Error(signal ? `it was ended by ${signal}` : `it ended with exit code ${code}`));
    });
  }

  function take(chunk: Buffer): void {
    try {
      for (const line of buffer.take(chunk)) if (!ignoresOutput) takeLine(line);
    } catch {
      stopListening(`it sent a message of more than ${MAX_MESSAGE_BYTES} bytes`);
    }
  }

  /** Skips a line that is not a message, up to a limit. */
  function takeLine(line: string): void {
    const message = parseMessage(line);
    if (message) transport.onmessage?.(message);
    noise = message ? 0 : noise + line.length + 1;
    if (noise > MAX_NOISE_BYTES) stopListening('it writes text to stdout that is not an MCP message');
  }

  /** Stops reading, since a flood of output would block everything else until the server ends. */
  function stopListening(why: string): void {
    ignoresOutput = true;
    child.hush();
    void end(new Error(why));
  }

  async function send(message: JSONRPCMessage): Promise<void> {
    child.write(serializeMessage(message));
  }

  /** Reports `why` first, so that pending requests fail with it. */
  function end(why: Error | undefined): Promise<void> {
    if (!closing) {
      if (why) transport.onerror?.(why);
      closing = child.end().finally(() => transport.onclose?.());
    }
    return closing;
  }

  return transport;
}

function parseMessage(line: string): JSONRPCMessage | undefined {
  if (!line.startsWith('{')) return undefined;
  return attempt(() => deserializeMessage(line));
}

/** The message cannot have reached the server. */
export class NotSent extends Error {}

function serverProcess(started: ServerLaunch) {
  let running: ReturnType<typeof startServer> | undefined;
  return {
    async start() {
      try {
        running = startServer(started);
        await once(running.server, 'spawn');
      } catch (error) {
        running = undefined;
        started.release();
        throw startError(error, started);
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
      await waitUntil(() => server.exitCode !== null || server.signalCode !== null, EXIT_MS);
      if (isGroupRunning(group)) await endGroup(group, AbortSignal.abort());
      running.dismiss();
      await settlesWithinLinger(closed);
      started.release();
      for (const stream of [server.stdin, server.stdout, server.stderr]) stream.destroy();
    },
  };
}

function startServer(started: ServerLaunch) {
  const server = spawnServer(started);
  server.on('error', () => undefined);
  const closed = once(server, 'close').catch(() => undefined);
  let dismiss = (): void => {};
  return {
    server,
    closed,
    guard(group: number) {
      dismiss = guardGroup(group);
    },
    /** Called before its input closes: the guard must not mistake the end of the server for the end of the daemon. */
    dismiss: () => dismiss(),
  };
}

/** It inherits none of the descriptors the daemon itself was started with. */
function spawnServer({ command, args, env, cwd, folder }: ServerLaunch) {
  try {
    const pipes = ['pipe', 'pipe', 'pipe', folder ?? 'ignore'] as const;
    const stdio = [...pipes, ...coverInheritedDescriptors(pipes.length)];
    const child = startedChild(() => spawn(command, args, { env, cwd, detached: true, stdio }));
    const { stdin, stdout, stderr } = child;
    if (!stdin || !stdout || !stderr) throw new Error('A server without pipes.');
    return Object.assign(child, { stdin, stdout, stderr });
  } finally {
    if (folder !== undefined) closeSync(folder);
  }
}

function startError(error: unknown, { command, env, cwd }: ServerLaunch): UserError {
  const why =
    errorCode(error) === 'ENOENT'
      ? `it was not found on PATH=${env['PATH']}, from the folder ${cwd}`
      : errorText(error);
  return new UserError(`\`${command}\` cannot be started: ${why}.`);
}

const NEWLINE = 0x0a;

/** Splits incoming bytes into lines. A long line is not scanned again with each chunk. */
function lineBuffer(largest: number): { take(chunk: Buffer): string[] } {
  let parts: Buffer[] = [];
  let size = 0;
  return {
    /** The lines completed by this chunk. Throws if one is too long. */
    take(chunk) {
      const lines: string[] = [];
      let from = 0;
      for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, from)) {
        lines.push(Buffer.concat([...parts, chunk.subarray(from, end)]).toString('utf8'));
        parts = [];
        size = 0;
        from = end + 1;
      }
      if (from < chunk.length) parts.push(chunk.subarray(from));
      size += chunk.length - from;
      if (size > largest) throw new Error(`a line of more than ${largest} bytes`);
      return lines;
    },
  };
}
