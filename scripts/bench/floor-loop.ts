// A floor: the simplest agent loop with the same client. One line of input is one job, whose tasks run concurrently
// until the model answers each with text. With the argument "durable", it also writes every turn to disk twice, as a
// log line and as a replaced file.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import * as fs from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import OpenAI from 'openai';

type Job = { system: string; tools: OpenAI.ChatCompletionTool[]; tasks: string[] };
type Call = { id: string; name: string; args: string };

const [baseURL, folder = '.', keeping] = process.argv.slice(1);
const client = new OpenAI({ baseURL, apiKey: 'none', maxRetries: 0 });
const sync = promisify(fs.fdatasync);
const log = keeping === 'durable' ? fs.openSync(join(folder, 'log.jsonl'), 'a') : undefined;

async function run({ system, tools }: Job, task: string): Promise<void> {
  const messages: OpenAI.ChatCompletionMessageParam[] = [
    { role: 'system', content: system },
    { role: 'user', content: task },
  ];
  for (let turn = 1; ; turn++) {
    const { text, call } = await ask(messages, tools);
    if (!call) return;
    const output = await use(call);
    const asked = { id: call.id, type: 'function' as const, function: { name: call.name, arguments: call.args } };
    messages.push({ role: 'assistant', content: text, tool_calls: [asked] });
    messages.push({ role: 'tool', tool_call_id: call.id, content: output });
    if (log !== undefined) await keep(log, { turn, text, call, output });
  }
}

async function ask(messages: OpenAI.ChatCompletionMessageParam[], tools: OpenAI.ChatCompletionTool[]) {
  const stream = await client.chat.completions.create({ model: 'bench', messages, tools, stream: true });
  let text = '';
  let call: Call | undefined;
  for await (const { choices } of stream) {
    text += choices[0]?.delta.content ?? '';
    for (const piece of choices[0]?.delta.tool_calls ?? []) {
      call ??= { id: piece.id ?? '', name: piece.function?.name ?? '', args: '' };
      call.args += piece.function?.arguments ?? '';
    }
  }
  return { text, call };
}

async function use({ name, args }: Call): Promise<string> {
  if (name === 'read_file') return readFile(join(folder, JSON.parse(args).path), 'utf8');
  const child = spawn('bash', ['-c', JSON.parse(args).command], { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  child.stdout.on('data', (data: Buffer) => {
    output += data.toString();
  });
  const [code] = await once(child, 'close');
  return `exit ${code}\n${output}`;
}

async function keep(file: number, turn: { turn: number; [detail: string]: unknown }): Promise<void> {
  fs.writeSync(file, `${JSON.stringify(turn)}\n`);
  await sync(file);
  const staged = join(folder, '.state.json');
  const state = fs.openSync(staged, 'w');
  fs.writeSync(state, JSON.stringify({ status: 'running', turn: turn.turn }));
  await promisify(fs.fsync)(state);
  fs.closeSync(state);
  fs.renameSync(staged, join(folder, 'state.json'));
}

console.log('READY');
for await (const line of createInterface({ input: process.stdin })) {
  const job: Job = JSON.parse(line);
  await Promise.all(job.tasks.map((task) => run(job, task)));
  console.log('DONE');
}
