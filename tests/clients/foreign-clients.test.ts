/**
 * Clients of others against the built server: `npm run test:clients`. Nothing is installed here; docs/testing.md says how to. A client
 * that is not there skips its test, with the reason.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect } from 'vitest';
import { serveWorkspace } from '../http/serving.ts';
import { openAiSetup } from '../openai/openai-setup.ts';
import { setup } from '../support/agentctl.ts';
import { foreign, LIMIT_MS, needNpm, needPython, PYTHON, run } from './foreign-programs.ts';

foreign(
  'llm asks, streams, and goes on in its session',
  async (context) => {
    await needPython(context, 'llm');
    const { serving, received, names, root } = await openAiSetup([
      { text: 'One.' },
      { text: 'Two.' },
      { text: 'Three.' },
    ]);
    const folder = join(dirname(root), 'llm');
    mkdirSync(folder);
    const model = [
      '- model_id: agentd',
      '  model_name: agentd',
      `  api_base: ${serving.url}/v1`,
      '  api_key_name: agentd',
    ];
    writeFileSync(join(folder, 'extra-openai-models.yaml'), `${model.join('\n')}\n`);
    writeFileSync(join(folder, 'keys.json'), JSON.stringify({ agentd: serving.token }), { mode: 0o600 });
    const llm = (...words: string[]) => run(PYTHON, ['-m', 'llm', ...words], { LLM_USER_PATH: folder, HOME: folder });
    expect(await llm('-m', 'agentd', 'hi')).toMatchObject({ code: 0, out: 'One.\n' });
    expect(await llm('-c', 'more')).toMatchObject({ code: 0, out: 'Two.\n' });
    expect(await llm('-c', '--no-stream', 'and more')).toMatchObject({ code: 0, out: 'Three.\n' });
    expect(await received(names()[0] ?? '')).toEqual(['hi', 'more', 'and more']);
    expect(names()).toHaveLength(1);
  },
  LIMIT_MS,
);

foreign(
  'the inspector of MCP lists the tools, calls one and reads a plan',
  async (context) => {
    const inspect = needNpm(context, '@modelcontextprotocol/inspector/clients/launcher/build/index.js');
    const place = setup();
    const { url, token } = await serveWorkspace(place, '--mcp');
    await place.serve('--model', 'runbook');
    await place.ctl(['send', 'demo', '1. Say hello: `echo hello`', '--wait']);
    const at = ['--cli', `${url}/mcp`, '--transport', 'http', '--header', `Authorization: Bearer ${token}`];
    const ask = async (...words: string[]) => {
      const { code, out, err } = await inspect([...at, '--method', ...words]);
      expect(code, err).toBe(0);
      return JSON.parse(out);
    };
    const { tools } = await ask('tools/list');
    expect(tools.map(({ name }: { name: string }) => name)).toContain('send_message');
    const { structuredContent } = await ask('tools/call', '--tool-name', 'get_plan', '--tool-arg', 'session=demo');
    expect(structuredContent.plan).toMatchObject({ status: 'completed', steps: [{ description: 'Say hello' }] });
    const { contents } = await ask('resources/read', '--uri', 'agentd://sessions/demo/plan');
    expect(contents[0].text).toContain('Say hello');
  },
  LIMIT_MS,
);

/** Statuses that also refuse a request which the schema forbids. */
const REFUSALS = `[checks.negative_data_rejection]
expected-statuses = [${[400, 401, 403, 404, 405, 409, 412, 413, 415, 422, 431].map((status) => `"${status}"`).join(', ')}]
`;
/** Rules that no schema states: an ETag of the plan, revisions in order, uploads that are there, a free name, a tar. */
const STRICTER = ['savePlan', 'getPlanDiff', 'sendMessage', 'forkSession', 'importSessions'];

foreign(
  'a property-based client finds no answer that openapi.json does not describe',
  async (context) => {
    await needPython(context, 'schemathesis');
    const place = setup();
    const { url, token } = await serveWorkspace(place);
    await place.serve('--model', 'runbook');
    await place.ctl(['send', 'demo', '1. Say hello: `echo hello`', '--wait']);
    const config = join(dirname(place.root), 'schemathesis.toml');
    writeFileSync(config, REFUSALS);
    const check = async (...words: string[]) => {
      const asked = [
        ...['-m', 'schemathesis.cli', '--config-file', config, 'run', `${url}/openapi.json`],
        ...['-H', `Authorization: Bearer ${token}`, '--phases', 'coverage,fuzzing', '--seed', '1', '--no-color'],
        ...[
          '-n',
          process.env['AGENTD_TEST_EXAMPLES'] ?? '20',
          '--request-timeout',
          '60',
          '--warnings',
          'off',
          ...words,
        ],
      ];
      // It keeps what it found in its folder.
      const { code, out, err } = await run(PYTHON, asked, {}, dirname(place.root));
      expect(code, out + err).toBe(0);
    };
    const named = (flag: string, names: string[]) => names.flatMap((name) => [flag, name]);
    // A stream has no end.
    await check(...named('--exclude-operation-id', [...STRICTER, 'streamEvents']));
    await check(...named('--include-operation-id', STRICTER), '--exclude-checks', 'positive_data_acceptance');
  },
  10 * LIMIT_MS,
);
