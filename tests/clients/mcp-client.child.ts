/** Agentd's client of MCP servers as the conformance suite runs it: connects, logs in where it is asked to, calls each tool. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { logIn } from '../../src/tools/mcp/mcp-login.ts';
import { openSessionServers } from '../../src/tools/mcp/mcp-pool.ts';
import { createToolbox } from '../../src/tools/toolbox/toolbox.ts';

const Context = z.looseObject({
  client_id: z.string().optional(),
  client_secret: z.string().optional(),
  toolCalls: z.array(z.object({ name: z.string(), arguments: z.record(z.string(), z.unknown()) })).optional(),
});
const Properties = z.record(z.string(), z.looseObject({ type: z.unknown() })).catch({});

const url = process.argv.at(-1) ?? '';
const { client_id, client_secret, toolCalls } = Context.parse(
  JSON.parse(process.env['MCP_CONFORMANCE_CONTEXT'] ?? '{}'),
);
const work = mkdtempSync(join(tmpdir(), 'agentd-suite-'));
const logins = join(work, 'logins');
const oauth = { ...(client_id && { clientId: client_id }), ...(client_secret && { clientSecret: client_secret }) };
const servers = { suite: { url, ...(client_id && { oauth }), timeout_s: 10 } };
const mcp = openSessionServers({ settings: () => servers, env: {}, logins, log: (_, text) => console.error(text) });
const box = createToolbox([], mcp, () => ({ mode: 'auto', session: [], workspace: [] }));
const { signal } = new AbortController();
const ready = () => box.refresh({ work: async () => work, signal });

/** The browser of a person who agrees to everything. */
const show = (address: string) => void fetch(address).catch((error) => console.error(String(error)));
const enter = (scope?: string) =>
  logIn(
    { name: 'suite', url: new URL(url), headers: {}, folder: logins, oauth: { ...oauth, ...(scope && { scope }) } },
    { show, answerMs: 5000 },
  );

const use = (name: string, args: object) =>
  box.run(
    { name, args: JSON.stringify(args) },
    { work, folder: join(work, 'call'), signal, blob: async () => undefined },
  );

/** Arguments of the types that a schema wants. */
const made = (schema: unknown): object =>
  Object.fromEntries(
    Object.entries(Properties.parse(Object(schema)['properties'])).map(([key, { type }]) => [
      key,
      type === 'number' || type === 'integer' ? 5 : type === 'boolean' ? true : 'x',
    ]),
  );

async function callOnce(name: string, args: object): Promise<void> {
  for (let round = 0; round < 3; round++) {
    const { text } = await use(name, args);
    console.error(`${name}: ${text}`);
    const scope = /lacks the scope `([^`]*)`/.exec(text)?.[1];
    if (scope !== undefined) await enter(scope);
    else if (/agentctl mcp login/.test(text)) await enter();
    else if (text.includes('"mcp_answers"')) {
      const key = /^- "([^"]*)"/m.exec(text)?.[1] ?? '';
      console.error((await use(name, { ...args, mcp_answers: { [key]: { confirmed: true, name: 'x' } } })).text);
      return;
    } else return;
  }
}

try {
  for (let tries = 0; tries < 3; tries++) {
    const notices = (await ready()).join('\n');
    console.error(notices);
    if (!notices.includes('agentctl mcp login')) break;
    await enter();
  }
  const calls = toolCalls?.map((one) => ({ name: `mcp__suite__${one.name}`, args: one.arguments }));
  const all = calls ?? box.specs.map(({ name, parameters }) => ({ name, args: made(parameters) }));
  for (const { name, args } of all.filter((one) => one.name.startsWith('mcp__'))) await callOnce(name, args);
} finally {
  await mcp.close();
  rmSync(work, { recursive: true, force: true });
}
