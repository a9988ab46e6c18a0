// A floor: one plain watch on every inbox of a workspace, and nothing else. Given an endpoint, it then loads the client
// and sends one request, like a daemon that finds a message at its start.
import * as fs from 'node:fs';
import { join } from 'node:path';

const [workspace = '.', baseURL] = process.argv.slice(1);
const sessions = join(workspace, '.sessions');
const seen = new Set<string>();
for (const name of fs.readdirSync(sessions)) fs.watch(join(sessions, name, 'inbox'), () => seen.add(name));
console.log('READY');
setInterval(() => seen.clear(), 60_000);
if (baseURL) {
  const { default: OpenAI } = await import('openai');
  const client = new OpenAI({ baseURL, apiKey: 'none', maxRetries: 0 });
  const messages = [{ role: 'user' as const, content: 'Are you there?' }];
  const stream = await client.chat.completions.create({ model: 'bench', messages, stream: true });
  for await (const piece of stream) seen.add(piece.id);
}
