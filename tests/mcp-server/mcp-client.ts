import { resolve } from 'node:path';
import { PassThrough } from 'node:stream';
import {
  Client,
  ReadBuffer,
  StreamableHTTPClientTransport,
  serializeMessage,
  type Transport,
} from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { onTestFinished } from 'vitest';
import { openClient } from '../../src/client/index.ts';
import { serveMcp } from '../../src/frontends/mcp/index.ts';
import type { Setup } from '../support/agentctl.ts';

/** Both versions of the protocol that are served. */
export const VERSIONS = ['2025-11-25', '2026-07-28'] as const;
export type Version = (typeof VERSIONS)[number];

/** What a client shows a person, and what that one answers. */
export type Person = (form: { message: string; requestedSchema?: unknown }) => Record<string, string> | null;

/** `before`: what happens while the person looks at the form. */
type ClientSetup = { version?: Version; person?: Person; before?: () => Promise<void> };

/** The SDK's own client; with `person` it can show forms. It is closed after the test. */
function newClient({ version = '2026-07-28', person, before }: ClientSetup): Client {
  const client = new Client(
    { name: 'test', version: '1' },
    {
      versionNegotiation: { mode: version === '2026-07-28' ? { pin: version } : 'legacy' },
      capabilities: person ? { elicitation: { form: {} } } : {},
    },
  );
  if (person)
    client.setRequestHandler('elicitation/create', async ({ params }) => {
      await before?.();
      const content = person(params);
      return content ? { action: 'accept', content } : { action: 'decline' };
    });
  onTestFinished(() => client.close());
  return client;
}

/** A client of `agentctl mcp`, in a process of its own. */
export async function stdioClient(
  { root }: Setup,
  { flags = [], ...setup }: ClientSetup & { flags?: string[] } = {},
): Promise<{ client: Client; pid: number }> {
  const client = newClient(setup);
  const args = [resolve('dist/agentctl.js'), '--workspace', root, 'mcp', ...flags];
  const transport = new StdioClientTransport({ command: process.execPath, args, stderr: 'pipe' });
  await client.connect(transport);
  return { client, pid: transport.pid ?? 0 };
}

/** A client of the same server in this process, where the program and its end are not what is tested. */
export async function clientHere(
  { root }: Pick<Setup, 'root'>,
  { answersApprovals = false, ...setup }: ClientSetup & { answersApprovals?: boolean } = {},
): Promise<Client> {
  const client = newClient(setup);
  const [input, output] = [new PassThrough(), new PassThrough()];
  const complaints: string[] = [];
  const complain = (text: string) => void complaints.push(text);
  const served = serveMcp({ client: openClient(root), from: undefined, answersApprovals }, { input, output, complain });
  onTestFinished(async () => {
    await client.close();
    await served;
    if (complaints.length > 0) throw new Error(complaints.join('\n'));
  });
  await client.connect(linesOver(input, output));
  return client;
}

/** The client's end of two streams, a message a line, as over the pipes of a process. */
function linesOver(input: PassThrough, output: PassThrough): Transport {
  const buffer = new ReadBuffer();
  const transport: Transport = {
    async start() {
      output.on('data', (bytes: Buffer) => {
        buffer.append(bytes);
        for (let message = buffer.readMessage(); message; message = buffer.readMessage())
          transport.onmessage?.(message);
      });
    },
    async send(message) {
      input.write(serializeMessage(message));
    },
    async close() {
      input.end();
      transport.onclose?.();
    },
  };
  return transport;
}

/** A client of `agentctl serve --mcp`. */
export async function httpClient(url: string, token: string, setup: ClientSetup = {}): Promise<Client> {
  const client = newClient(setup);
  const headers = { authorization: `Bearer ${token}` };
  await client.connect(new StreamableHTTPClientTransport(new URL('/mcp', url), { requestInit: { headers } }));
  return client;
}

/** What a tool answered: data for programs, text for a model. */
export async function callTool(client: Client, name: string, args: Record<string, unknown>) {
  const { structuredContent: data, content, isError = false } = await client.callTool({ name, arguments: args });
  const text = content.map((part) => (part.type === 'text' ? part.text : `(${part.type})`)).join('\n');
  return { data, text, isError };
}

/** The text of a resource. */
export async function readText(client: Client, uri: string): Promise<string> {
  const { contents } = await client.readResource({ uri });
  return contents.map((part) => ('text' in part ? part.text : `(${part.mimeType})`)).join('\n');
}
