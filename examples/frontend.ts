/**
 * A frontend: sends a message, shows what happens, passes on questions and calls that wait, and prints the reply.
 * Usage: AGENTD_URL=http://127.0.0.1:8377 AGENTD_TOKEN=… npx tsx frontend.ts <session> <text>
 */
import { randomUUID } from 'node:crypto';
import { stdin, stdout } from 'node:process';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';

const { AGENTD_URL: url, AGENTD_TOKEN: token } = process.env;
const [session, text] = process.argv.slice(2);
if (!url || !token || !session || !text)
  throw new Error('Usage: AGENTD_URL=… AGENTD_TOKEN=… frontend.ts <session> <text>');
const path = `${url}/api/sessions/${encodeURIComponent(session)}`;
const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' };

/** A request; a refusal says what was expected, what was found and what to do. */
async function request(rest: string, init: RequestInit = {}): Promise<Response> {
  const answer = await fetch(path + rest, { ...init, headers: { ...headers, ...init.headers } });
  if (!answer.ok) throw new Error(JSON.parse(await answer.text()).detail);
  return answer;
}

/** Sends something once: under the same key the server takes it once, however often it is sent. */
async function send(rest: string, body: object): Promise<string> {
  const init = { method: 'POST', body: JSON.stringify(body), headers: { 'Idempotency-Key': randomUUID() } };
  for (;;) {
    try {
      return JSON.parse(await (await request(rest, init)).text()).id;
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      await pause(1000);
    }
  }
}

/** The event log as it grows. After a lost connection it continues after the last event. */
async function* follow() {
  for (let after = 0; ; await pause(1000)) {
    try {
      const { body } = await request(`/events?after=${after}`);
      let rest = '';
      for await (const piece of body?.pipeThrough(new TextDecoderStream()) ?? []) {
        const frames = (rest + piece).split('\n\n');
        rest = frames.pop() ?? '';
        for (const frame of frames) {
          const [, event] = /^event: (.*)$/m.exec(frame) ?? [];
          const data = JSON.parse(/^data: (.*)$/m.exec(frame)?.[1] ?? '{}');
          after = Number(/^id: (.*)$/m.exec(frame)?.[1] ?? after);
          if (event !== undefined) yield { event, data };
        }
      }
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
    }
  }
}

const lines = createInterface({ input: stdin })[Symbol.asyncIterator]();
const ask = async (question: string): Promise<string> => {
  stdout.write(`${question}\n> `);
  return (await lines.next()).value ?? '';
};

const sent = await send('/messages', { text });
let isOurs = false;
for await (const { event, data } of follow()) {
  // What comes before it is the past of the session.
  if (event === 'message.received') isOurs ||= data.id === sent;
  if (!isOurs) continue;
  if (event === 'live') stdout.write(data.text);
  else if (event === 'model.answered') stdout.write('\n');
  else if (event.startsWith('step.')) console.log(`${event} ${data.step.id ?? data.step}`);
  else if (event === 'approval.asked') {
    const decision = (await ask(`${data.why}\n${data.display}\nAllow it? (y/n)`)) === 'y' ? 'allow' : 'deny';
    await send(`/approvals/${data.id}`, { hash: data.hash, decision });
  } else if (event === 'run.ended' && data.question) await send('/messages', { text: await ask(data.question.text) });
  else if (event === 'reply.committed' && data.reply.status !== 'waiting' && data.reply.status !== 'joined') {
    console.log(`${data.reply.status}: ${data.reply.text}`);
    process.exit(data.reply.status === 'done' ? 0 : 1);
  }
}
