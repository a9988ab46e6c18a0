import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { isDaemonBlock, unwrapDataBlock } from '../../src/protocol/session/prompt-tags.ts';
import { ground } from '../support/daemon.ts';
import type { Answer } from '../support/openai-server.ts';
import { modelServer, temporaryFolder } from '../support/temporary.ts';

type Calls = Record<string, { name: string; args: unknown }>;

/** A model that does what the message names, and answers with what came of it. */
async function obedient(calls: Calls, config: object = {}) {
  const server = await modelServer(({ userText, body }): Answer => {
    const last = body.messages.findLast((one) => !isDaemonBlock(one.content ?? ''));
    if (last?.role === 'tool') return { text: `It said: ${unwrapDataBlock(last.content ?? '')}` };
    const call = Object.entries(calls).find(([word]) => userText.includes(word))?.[1];
    return call
      ? { text: 'At once.', calls: [{ name: call.name, args: JSON.stringify(call.args) }] }
      : { text: '好的。' };
  });
  const on = ground();
  on.config({ model: { base_url: server.url, name: 'test' }, ...config });
  const put = (path: string, text: string) => {
    mkdirSync(join(on.root, path, '..'), { recursive: true });
    writeFileSync(join(on.root, path), text);
  };
  const say = async (session: string, name: string, text: string) => {
    on.sh(session, `mkdir -p inbox && echo '${text}' > inbox/${name}`);
    return on.file(session, `outbox/${name}`);
  };
  const asked = (text: string) => {
    const found = server.requests.findLast(({ userText }) => userText.includes(text));
    return {
      system: found?.body.messages[0]?.content ?? '',
      tools: found?.body.tools?.map((one) => one.function.name),
    };
  };
  return { on, put, say, asked };
}

test('what one session remembers for all, the next run of another has in its system message, also after a kill', async () => {
  const { on, say, asked } = await obedient({
    'for all': { name: 'remember', args: { text: 'The printer is on floor 3', scope: 'workspace' } },
    'for me': { name: 'remember', args: { text: 'Ada likes tables' } },
  });
  const first = await on.start();
  expect(await say('ann', '1.md', 'note it for all')).toContain('It said: Noted (workspace)');
  expect(await say('ann', '2.md', 'note it for me')).toContain('It said: Noted (session)');
  expect(asked('for all').system).not.toContain('<memory');
  await say('bob', '1.md', 'hello there');
  expect(asked('hello there').system).toMatch(
    /<memory of="workspace">\n- The printer is on floor 3 \(\d{4}-\d\d-\d\d\)\n<\/memory>/,
  );
  expect(asked('hello there').system).not.toContain('Ada');
  await first.kill();
  await on.serve();
  await say('ann', '3.md', 'hello again');
  expect(asked('hello again').system).toContain('- The printer is on floor 3');
  expect(asked('hello again').system).toContain('<memory of="session">\n- Ada likes tables');
  expect(readFileSync(join(on.root, 'MEMORY.md'), 'utf8')).toMatch(/^- The printer is on floor 3 \(.*\)\n$/);
});

test('read_also of session.json holds from the first message on', async () => {
  const shared = temporaryFolder('shared');
  writeFileSync(join(shared, 'a.txt'), 'from elsewhere');
  const { on, say } = await obedient({ read: { name: 'read_file', args: { path: join(shared, 'a.txt') } } });
  on.sh('ann', `echo '{ "read_also": ["${shared}"] }' > session.json`);
  await on.serve();
  expect(await say('ann', '1.md', 'read it')).toContain('It said: from elsewhere');
});

test('SOUL.md and AGENTS.md of workspace and session are instructions, work/ has its say, and a command knows its session', async () => {
  const { on, put, say, asked } = await obedient(
    { where: { name: 'shell', args: { command: 'echo "$AGENTD_SESSION in $AGENTD_SESSION_FOLDER"' } } },
    { sandbox: 'none', approvals: 'auto' },
  );
  put('SOUL.md', 'You are Hal.');
  put('CLAUDE.md', 'Write to out/.');
  put('.sessions/ann/AGENTS.md', 'Only in French.');
  put('.sessions/ann/work/AGENTS.md', 'Tests first.');
  await on.serve();
  expect(await say('ann', '1.md', 'say where you are')).toContain(`ann in ${join(on.root, '.sessions/ann')}`);
  expect(asked('where you are').system).toMatch(
    /Instructions\nYou are Hal\.\n\nWrite to out\/\.\n\nOnly in French\.[\s\S]*<project file="AGENTS.md">\nTests first\.\n<\/project>/,
  );
  put('AGENTS.md', 'Write to in/.');
  await say('bob', '1.md', 'hello');
  expect(asked('hello').system).toContain('You are Hal.\n\nWrite to in/.');
  expect(asked('hello').system).not.toMatch(/French|Tests first|out\//);
});
