/**
 * Embeds agentd in a program: starts a daemon for a workspace of its own, sends a task, shows what happens, asks before
 * a call that needs approval, and prints the reply. Usage: npx tsx embed.ts <workspace> <task> [flags of agentd…]
 */
import { createInterface } from 'node:readline/promises';
import { fileURLToPath } from 'node:url';
import { openClient } from 'agentd-files';

const [workspace, text, ...flags] = process.argv.slice(2);
if (workspace === undefined || text === undefined) throw new Error('Usage: embed.ts <workspace> <task> [flags…]');
const client = openClient(workspace);

// The daemon is a process of its own: if this program crashes, the work goes on, and the reply waits in a file.
const program = fileURLToPath(new URL('agentd.js', import.meta.resolve('agentd-files')));
if (!client.daemon()) await client.start({ program, args: flags });

const sent = await client.send('report', { text });
const terminal = createInterface({ input: process.stdin, output: process.stdout });
let isOurs = false;
for await (const update of client.stream(sent.session)) {
  if (update.is !== 'event') continue;
  const { event } = update;
  // The stream begins with the past of the session.
  isOurs ||= event.type === 'message.received' && event.id === sent.id;
  if (!isOurs) continue;
  if (event.type === 'step.completed') console.log(`done: ${event.step}`);
  else if (event.type === 'approval.asked') {
    const answer = await terminal.question(`${event.why}\n${event.display}\nAllow it? (y/n) `);
    await client.send('report', { command: `${answer === 'y' ? 'approve' : 'deny'} ${event.id}` });
  } else if (event.type === 'reply.committed' && !['waiting', 'joined'].includes(event.reply.status)) {
    console.log(`${event.reply.status}: ${event.reply.text}`);
    break;
  }
}
terminal.close();
await client.stop();
