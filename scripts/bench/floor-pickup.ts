// A floor: one plain watch on a folder. A file in it is read, sent to the model with all earlier ones, and answered
// with a file.
import * as fs from 'node:fs';
import { join } from 'node:path';
import OpenAI from 'openai';

const [baseURL, root = '.'] = process.argv.slice(1);
const client = new OpenAI({ baseURL, apiKey: 'none', maxRetries: 0 });
const taken = new Set<string>();
const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'system', content: 'You answer.' }];

async function take(name: string): Promise<void> {
  const text = fs.readFileSync(join(root, 'inbox', name), 'utf8');
  if (text === '' || taken.has(name)) return;
  taken.add(name);
  messages.push({ role: 'user', content: text });
  let answer = '';
  const stream = await client.chat.completions.create({ model: 'bench', messages, stream: true });
  for await (const { choices } of stream) answer += choices[0]?.delta.content ?? '';
  messages.push({ role: 'assistant', content: answer });
  fs.unlinkSync(join(root, 'inbox', name));
  fs.writeFileSync(join(root, 'outbox', name), answer);
}

fs.watch(join(root, 'inbox'), (_event, name) => {
  if (name && !name.startsWith('.') && fs.existsSync(join(root, 'inbox', name))) void take(name);
});
console.log('READY');
