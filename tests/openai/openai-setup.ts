import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import OpenAI from 'openai';
import { type Serving, type ServingHere, serveHere } from '../http/serving.ts';
import { type Setup, script, setup } from '../support/agentctl.ts';
import { TEST_SETTINGS } from '../support/daemon-here.ts';

export type OpenAiSetup = Setup & {
  serving: ServingHere;
  /** OpenAI's npm client, without automatic retries. */
  openai: OpenAI;
  /** Names of the sessions, sorted. */
  names(): string[];
  /** The texts of all messages that the daemon took from a session's inbox, in order. */
  received(session: string): Promise<string[]>;
};

type Face = 'openai' | 'ag-ui';

/** A workspace with a daemon whose model plays `answers`, and a server with the OpenAI API. */
export async function openAiSetup(answers: object[], settings = {}, face: Face = 'openai'): Promise<OpenAiSetup> {
  const place = setup();
  mkdirSync(place.root, { recursive: true, mode: 0o700 });
  writeFileSync(place.path('agentd.json'), JSON.stringify({ ...TEST_SETTINGS, ...settings }));
  await place.serveHere('--model', script(place, answers));
  const serving = await serveHere(place, face);
  return {
    ...place,
    serving,
    openai: clientOf(serving),
    names: () => readdirSync(place.path('.sessions')).sort(),
    async received(session) {
      const { out } = await place.here(['log', session, '--json']);
      const events = out
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line));
      return events.filter(({ type }) => type === 'message.received').map(({ body }) => String(body.text));
    },
  };
}

export const clientOf = ({ url, token }: Pick<Serving, 'url' | 'token'>, maxRetries = 0): OpenAI =>
  new OpenAI({ apiKey: token, baseURL: `${url}/v1`, maxRetries });

export type Messages = OpenAI.ChatCompletionMessageParam[];

/** Texts of a user, as messages. */
export const userMessages = (content: string): Messages => [{ role: 'user', content }];

/** The text of a completion and the session in its header. */
export async function ask(
  { openai }: Pick<OpenAiSetup, 'openai'>,
  messages: Messages,
  { headers = {}, ...more }: { headers?: Record<string, string>; [key: string]: unknown } = {},
) {
  const { data, response } = await openai.chat.completions
    .create({ model: 'agentd', messages, ...more, stream: false }, { headers })
    .withResponse();
  const [choice] = data.choices;
  return {
    text: choice?.message.content ?? '',
    finish: choice?.finish_reason,
    session: response.headers.get('x-agentd-session'),
  };
}

/** A model call that ends once a file exists in the session's `work/`. */
export const waitForFile = (name: string) => ({
  name: 'shell',
  args: { command: `while [ ! -e ${name} ]; do sleep 0.05; done; echo found` },
});
