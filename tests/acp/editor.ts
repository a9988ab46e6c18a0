import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { PassThrough, Readable, Writable } from 'node:stream';
import {
  type ClientContext,
  type ContentBlock,
  type CreateElicitationResponse,
  client,
  methods,
  ndJsonStream,
  PROTOCOL_VERSION,
  type RequestPermissionRequest,
  type SessionUpdate,
} from '@agentclientprotocol/sdk';
import { onTestFinished } from 'vitest';
import { propertyOf } from '../../src/base/collections.ts';
import { openClient } from '../../src/client/index.ts';
import { serveAcp } from '../../src/frontends/acp/index.ts';
import { until } from '../support/daemon.ts';

/** The chosen option; `hold`: none until the request is withdrawn; `late deny`: a denial after that. */
type Choice = 'allow' | 'always' | 'deny' | 'dismiss' | 'hold' | 'late deny';

export type Editor = {
  agent: ClientContext;
  /** A project on disk. */
  project: string;
  /** All updates in the order received. */
  reported: SessionUpdate[];
  /** The requests to the person, and which were withdrawn. */
  permissions: RequestPermissionRequest[];
  withdrawn: string[];
  questions: string[];
  /** The person's answer to the next request. */
  responses: { permission: Choice; question: CreateElicitationResponse };
  updates<K extends SessionUpdate['sessionUpdate']>(kind: K): Extract<SessionUpdate, { sessionUpdate: K }>[];
  /** All text of the agent so far. */
  words(): string;
  /** Waits for a matching update. */
  sees(what: string, fits: (update: SessionUpdate) => boolean): Promise<SessionUpdate>;
};
/** An editor that has started `agentctl acp`. */
export type EditorOfProgram = Editor & { process: ChildProcess; ended: Promise<number | null> };

/** Starts `agentctl acp` in a separate process, which ends with the test. */
export function spawnAcp(root: string): { child: ChildProcess; ended: Promise<number | null>; stderr(): string } {
  const child = spawn(process.execPath, [resolve('dist/agentctl.js'), 'acp', '--workspace', root], {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'] },
  });
  let stderr = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const ended = new Promise<number | null>((done) => child.once('close', done));
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  return { child, ended, stderr: () => stderr };
}

/** An editor that has started `agentctl acp` and initialized it. */
export async function openEditor(root: string, options: { forms?: boolean } = {}): Promise<EditorOfProgram> {
  const { child, ended } = spawnAcp(root);
  if (!child.stdin || !child.stdout) throw new Error('no pipes');
  return { ...(await connect(root, child.stdin, child.stdout, options)), process: child, ended };
}

/** An editor whose agent is in this process, for tests that are not about the program. */
export async function editorHere(root: string, options: { forms?: boolean } = {}): Promise<Editor> {
  const [toAgent, fromAgent] = [new PassThrough(), new PassThrough()];
  const complaints: string[] = [];
  const served = serveAcp(openClient(root), {
    input: toAgent,
    output: fromAgent,
    complain: (text) => void complaints.push(text),
  });
  onTestFinished(async () => {
    toAgent.end();
    await served;
    if (complaints.length > 0) throw new Error(complaints.join('\n'));
  });
  return connect(root, toAgent, fromAgent, options);
}

async function connect(root: string, input: Writable, output: Readable, { forms = false }): Promise<Editor> {
  const project = join(root, 'atlas');
  mkdirSync(project, { recursive: true });
  const it: Omit<Editor, 'agent'> = {
    ...{ project, reported: [], permissions: [], withdrawn: [], questions: [] },
    responses: { permission: 'hold', question: { action: 'cancel' } },
    updates: (kind) =>
      it.reported.flatMap((update) =>
        update.sessionUpdate === kind ? [update as Extract<SessionUpdate, { sessionUpdate: typeof kind }>] : [],
      ),
    words: () => it.updates('agent_message_chunk').map(textOf).join(''),
    sees: (what, fits) => until(() => it.reported.find(fits), what),
  };
  const app = client({ name: 'test' })
    .onNotification(methods.client.session.update, ({ params }) => void it.reported.push(params.update))
    .onRequest(methods.client.session.requestPermission, async ({ params, signal }) => {
      it.permissions.push(params);
      const choice = it.responses.permission;
      if (choice === 'dismiss') return { outcome: { outcome: 'cancelled' } };
      if (choice !== 'hold' && choice !== 'late deny') return { outcome: { outcome: 'selected', optionId: choice } };
      await new Promise((withdrawn) => signal.addEventListener('abort', withdrawn));
      it.withdrawn.push(params.toolCall.toolCallId);
      if (choice === 'late deny') return { outcome: { outcome: 'selected', optionId: 'deny' } };
      return { outcome: { outcome: 'cancelled' } };
    })
    .onRequest(methods.client.elicitation.create, ({ params }) => {
      it.questions.push(params.message);
      return it.responses.question;
    });
  const connection = app.connect(ndJsonStream(Writable.toWeb(input), Readable.toWeb(output)));
  connection.closed.catch(() => undefined);
  const clientCapabilities = forms ? { elicitation: { form: {} } } : {};
  await connection.agent.request(methods.agent.initialize, { protocolVersion: PROTOCOL_VERSION, clientCapabilities });
  return { ...it, agent: connection.agent };
}

/** Opens a session for the project. */
export async function openNew({ agent, project }: Editor): Promise<string> {
  return (await agent.request(methods.agent.session.new, { cwd: project, mcpServers: [] })).sessionId;
}

/** An editor in this process with a new thread. */
export async function newThread(root: string): Promise<{ editor: Editor; sessionId: string }> {
  const editor = await editorHere(root);
  return { editor, sessionId: await openNew(editor) };
}

export const load = ({ agent, project }: Editor, sessionId: string) =>
  agent.request(methods.agent.session.load, { sessionId, cwd: project, mcpServers: [] });

/** Sends a prompt and returns why the turn ended. */
export async function ask({ agent }: Editor, sessionId: string, text: string): Promise<string> {
  const prompt: ContentBlock[] = [{ type: 'text', text }];
  return (await agent.request(methods.agent.session.prompt, { sessionId, prompt })).stopReason;
}

export const cancel = ({ agent }: Editor, sessionId: string) =>
  agent.notify(methods.agent.session.cancel, { sessionId });

/** Waits until the person has got this many requests. */
export const asked = ({ permissions }: Editor, count = 1) =>
  until(() => permissions.length >= count, `request ${count}`);

/** The text of an update, if it has any. */
export const textOf = (update: object): string => {
  const content: unknown = propertyOf(update, 'content');
  return String(propertyOf(content, 'text') ?? '');
};
