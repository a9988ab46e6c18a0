import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { resolve } from 'node:path';
import { onTestFinished } from 'vitest';
import { openClient } from '../../src/client/index.ts';
import { AG_UI_PROTOCOL } from '../../src/frontends/ag-ui/ag-ui-routes.ts';
import { serveHttp } from '../../src/frontends/http/index.ts';
import { mcpProtocol } from '../../src/frontends/mcp/index.ts';
import { OPENAI_PROTOCOL } from '../../src/frontends/openai/openai-routes.ts';
import type { Setup } from '../support/agentctl.ts';

/** A workspace that is served over HTTP, and how to send requests to it. */
export type Serving = {
  url: string;
  token: string;
  /** Sends a request with the token, unless `headers` say otherwise. `body` is sent as JSON, `raw` unchanged. */
  ask(method: string, path: string, asked?: Asked): Promise<Answer>;
};
/** A workspace served in this process. */
export type ServingHere = Serving & {
  /** Stops it, as after SIGTERM. Throws its internal errors. */
  close(): Promise<void>;
};
/** A workspace served by `agentctl serve` in a separate process. */
export type ServingProgram = Serving & {
  child: ChildProcess;
  ended: Promise<{ code: number | null; out: string; err: string }>;
};
export type Asked = { headers?: Record<string, string | undefined>; body?: unknown; raw?: string | Buffer };
export type Answer = {
  status: number;
  headers: Record<string, unknown>;
  text: string;
  bytes: Buffer;
  json: Record<string, unknown>;
};

const PROTOCOLS = { openai: () => OPENAI_PROTOCOL, mcp: mcpProtocol, 'ag-ui': () => AG_UI_PROTOCOL };

/** The same server in this process, for tests that are not about the program; it is closed after the test. */
export async function serveHere({ root }: Setup, ...protocols: Array<keyof typeof PROTOCOLS>): Promise<ServingHere> {
  const complaints: string[] = [];
  const server = await serveHttp(openClient(root), {
    port: 0,
    socket: undefined,
    complain: (text) => void complaints.push(text),
    protocols: protocols.map((name) => PROTOCOLS[name]()),
  });
  const end = async () => {
    await server.close();
    if (complaints.length > 0) throw new Error(complaints.join('\n'));
  };
  let ended: Promise<void> | undefined;
  const close = () => {
    ended ??= end();
    return ended;
  };
  onTestFinished(close);
  const { url } = server;
  const token = readFileSync(`${root}/.agentd/token`, 'utf8').trim();
  return { url, token, close, ask: (method, path, asked) => ask(url, token, method, path, asked) };
}

/** Starts a server and waits until it prints its URL; it is stopped after the test. */
export async function serveWorkspace({ root }: Setup, ...flags: string[]): Promise<ServingProgram> {
  const words = [resolve('dist/agentctl.js'), '--workspace', root, 'serve', '--port', '0', ...flags];
  const child = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'pipe'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  let [out, err] = ['', ''];
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err += text;
  });
  const ended = new Promise<{ code: number | null; out: string; err: string }>((done) =>
    child.once('close', (code) => done({ code, out, err })),
  );
  const url = await new Promise<string>((listening, failed) => {
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      out += text;
      const found = /^SERVING (\S+)\n$/.exec(out)?.[1];
      if (found !== undefined) listening(found);
    });
    void ended.then(({ code }) => failed(new Error(`agentctl serve ended (${code}): ${err}`)));
  });
  const token = readFileSync(`${root}/.agentd/token`, 'utf8').trim();
  return { url, child, token, ended, ask: (method, path, asked) => ask(url, token, method, path, asked) };
}

/** By `node:http`, since `fetch` sets Host and Origin itself. A header that is undefined is left out. */
export function ask(url: string, token: string, method: string, path: string, asked: Asked = {}): Promise<Answer> {
  const { headers = {}, body, raw } = asked;
  const bytes = raw ?? (body === undefined ? undefined : JSON.stringify(body));
  const type = method === 'GET' ? {} : { 'content-type': 'application/json' };
  const all = Object.entries({ authorization: `Bearer ${token}`, ...type, ...headers });
  const given = Object.fromEntries(all.flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])));
  return new Promise((done, failed) => {
    const { hostname, port } = new URL(url);
    const sent = httpRequest({ method, path, hostname, port, headers: given, agent: false }, (answer) => {
      const pieces: Buffer[] = [];
      answer.on('data', (piece: Buffer) => pieces.push(piece));
      answer.on('end', () => {
        const bytes = Buffer.concat(pieces);
        const text = bytes.toString();
        const json: Record<string, unknown> =
          /json/.test(answer.headers['content-type'] ?? '') && text !== '' ? JSON.parse(text) : {};
        done({ status: answer.statusCode ?? 0, headers: answer.headers, text, bytes, json });
      });
    });
    sent.once('error', failed);
    sent.end(bytes);
  });
}
