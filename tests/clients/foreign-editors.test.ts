/** Editors of others that speak ACP, and Codex as a user of the OpenAI endpoint: `npm run test:clients`. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { expect } from 'vitest';
import { openAiSetup } from '../openai/openai-setup.ts';
import { script, setup } from '../support/agentctl.ts';
import { foreign, LIMIT_MS, needNpm, needPython, PYTHON, run } from './foreign-programs.ts';

const AGENTCTL = resolve('dist/agentctl.js');
/** What a model does that is asked to say hello by a command. */
const HELLO = [
  { text: '[Step] Say hello', calls: [{ name: 'shell', args: { command: 'echo hello' } }] },
  { text: 'I said hello. [Done]' },
];

const PYTHON_EDITOR = `
import asyncio, json, sys
from acp import spawn_agent_process, text_block, PROTOCOL_VERSION
from acp.schema import AllowedOutcome, RequestPermissionResponse
node, agentctl, root, project = sys.argv[1:]
updates, asked = [], []
class Editor:
    async def request_permission(self, session_id, tool_call, options, **rest):
        asked.append(tool_call.title)
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome='selected', option_id=options[0].option_id))
    async def session_update(self, session_id, update, **rest):
        updates.append(update)
    def on_connect(self, conn): pass
def words():
    return ''.join(u.content.text for u in updates if u.session_update == 'agent_message_chunk')
async def main():
    out = {}
    async with spawn_agent_process(Editor(), node, agentctl, 'acp', '--workspace', root) as (agent, process):
        out['version'] = (await agent.initialize(protocol_version=PROTOCOL_VERSION)).protocol_version
        session = (await agent.new_session(cwd=project, mcp_servers=[])).session_id
        out['stop'] = (await agent.prompt(session_id=session, prompt=[text_block('Say hello')])).stop_reason
        plans = [[(e.content, e.status) for e in u.entries] for u in updates if u.session_update == 'plan']
        out.update(asked=asked, plan=plans[-1], words=words())
        updates.clear()
        await agent.load_session(cwd=project, session_id=session, mcp_servers=[])
        out['loaded'] = words()
        out['listed'] = [s.session_id == session for s in (await agent.list_sessions(cwd=project)).sessions]
    print(json.dumps(out))
asyncio.run(main())
`;

foreign(
  'the Python client of ACP prompts, allows a call, sees the plan, and loads the session again',
  async (context) => {
    await needPython(context, 'agent-client-protocol');
    const place = setup();
    mkdirSync(place.root, { recursive: true, mode: 0o700 });
    writeFileSync(place.path('agentd.json'), JSON.stringify({ sandbox: 'none', permissions: [{ ask: 'shell' }] }));
    await place.serve('--model', script(place, HELLO));
    const words = ['-c', PYTHON_EDITOR, process.execPath, AGENTCTL, place.root, dirname(place.root)];
    const { out, err } = await run(PYTHON, words);
    expect(err).toBe('');
    expect(JSON.parse(out)).toEqual({
      version: 1,
      stop: 'end_turn',
      asked: ['echo hello'],
      plan: [['Say hello', 'completed']],
      words: expect.stringContaining('I said hello.'),
      loaded: expect.stringContaining('I said hello.'),
      listed: [true],
    });
  },
  LIMIT_MS,
);

foreign(
  'acpx opens a session, prompts in it twice, and both prompts are messages of one session',
  async (context) => {
    const acpx = needNpm(context, 'acpx/dist/cli.js');
    const place = setup();
    mkdirSync(place.root, { recursive: true, mode: 0o700 });
    writeFileSync(place.path('agentd.json'), JSON.stringify({ sandbox: 'none' }));
    await place.serve('--model', script(place, [...HELLO, { text: 'Hello again.' }]));
    const agent = `${process.execPath} ${AGENTCTL} acp --workspace ${place.root}`;
    const at = ['--agent', agent, '--cwd', dirname(place.root), '--approve-all', '--ttl', '20', '--format', 'text'];
    for (const [words, wanted] of [
      [['sessions', 'new'], ''],
      [['prompt', 'Say hello'], 'I said hello.'],
      [['prompt', 'Say it again'], 'Hello again.'],
    ] as const) {
      const { code, out, err } = await acpx([...at, ...words]);
      expect([words, code], out + err).toEqual([words, 0]);
      expect(out).toContain(wanted);
    }
    const names = readdirSync(place.path('.sessions'));
    expect(names).toHaveLength(1);
    const replies = readdirSync(place.path('.sessions', names[0] ?? '', 'outbox'));
    expect(replies.filter((name) => /^[^.].*\./.test(name))).toHaveLength(2);
  },
  LIMIT_MS,
);

foreign(
  'Codex runs a task by the responses of the OpenAI endpoint, in a session of its own',
  async (context) => {
    const codex = needNpm(context, '@openai/codex/bin/codex.js');
    const { serving, root, names } = await openAiSetup(HELLO);
    const home = join(dirname(root), 'codex');
    mkdirSync(home);
    writeFileSync(
      join(home, 'config.toml'),
      [
        'model = "agentd"',
        'model_provider = "agentd"',
        '[model_providers.agentd]',
        'name = "agentd"',
        `base_url = "${serving.url}/v1"`,
        'env_key = "AGENTD_TOKEN"',
        'wire_api = "responses"',
      ].join('\n'),
    );
    const lastFile = join(home, 'last.txt');
    const words = [
      'exec',
      '--skip-git-repo-check',
      '--sandbox',
      'read-only',
      '--output-last-message',
      lastFile,
      'Say hello',
    ];
    const { code, out, err } = await codex(['--cd', home, ...words], { CODEX_HOME: home, AGENTD_TOKEN: serving.token });
    expect(code, out + err).toBe(0);
    expect(readFileSync(lastFile, 'utf8')).toContain('I said hello.');
    expect(names()).toHaveLength(1);
  },
  LIMIT_MS,
);
