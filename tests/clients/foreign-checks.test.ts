/** Validators of others over what agentd publishes: its formats, its API, its package, its answers. `npm run test:clients`. */
import { existsSync, mkdtempSync, readdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { expect } from 'vitest';
import { openAiSetup } from '../openai/openai-setup.ts';
import { foreign, LIMIT_MS, needNpm, needNpmFile, needPython, PYTHON, run, skip } from './foreign-programs.ts';

/** The file of the API as a server gives it. */
async function openApiFile(): Promise<string> {
  const { serving } = await openAiSetup([]);
  const file = join(mkdtempSync(join(tmpdir(), 'agentd-client-')), 'openapi.json');
  writeFileSync(file, await (await fetch(`${serving.url}/openapi.json`)).text());
  return file;
}

const LINTERS = {
  '@redocly/cli/bin/cli.js': (file: string) => ['lint', file],
  '@stoplight/spectral-cli/dist/index.js': (file: string) => {
    const rules = join(dirname(file), 'rules.yaml');
    writeFileSync(rules, 'extends: spectral:oas\n');
    return ['lint', file, '--ruleset', rules, '--fail-severity', 'error'];
  },
};

for (const [program, words] of Object.entries(LINTERS))
  foreign(
    `${program.split('/', 2).join('/')} finds no error in openapi.json`,
    async (context) => {
      const lint = needNpm(context, program);
      const { code, out, err } = await lint(words(await openApiFile()), { REDOCLY_TELEMETRY: 'off' });
      expect(code, out + err).toBe(0);
    },
    LIMIT_MS,
  );

const STRICT = `
import fs from 'node:fs';
import Ajv from 'ajv/dist/2020.js';
for (const file of process.argv.slice(1))
  new Ajv({ strict: true, allowUnionTypes: true, validateFormats: false }).compile(JSON.parse(fs.readFileSync(file)));
`;

foreign(
  'ajv compiles every schema that is published in its strict mode',
  async (context) => {
    const { node, path } = needNpmFile(context, 'ajv/package.json');
    const files = readdirSync('docs/schemas').map((name) => resolve('docs/schemas', name));
    const { code, err } = await run(node, ['--input-type=module', '-e', STRICT, ...files], {}, dirname(path));
    expect(code, err).toBe(0);
  },
  LIMIT_MS,
);

const OPEN_RESPONSES = `
import json, sys, urllib.request, openresponses_types as types
url, token = sys.argv[1:]
def ask(**body):
    head = {'authorization': 'Bearer ' + token, 'content-type': 'application/json'}
    return urllib.request.urlopen(urllib.request.Request(url, json.dumps({'model': 'agentd/one', **body}).encode(), head)).read().decode()
types.ResponseResource.model_validate_json(ask(input='One'))
events = [getattr(types, name) for name in dir(types) if name.endswith('StreamingEvent')]
kinds = {one.value: kind for kind in events for one in kind.model_fields['type'].annotation}
seen = []
for line in ask(input='Two', stream=True).splitlines():
    if line.startswith('data: {'):
        event = json.loads(line[6:])
        kinds[event['type']].model_validate(event)
        seen.append(event['type'])
print(json.dumps(seen))
`;

foreign(
  'the types of Open Responses validate a response and every event of a stream',
  async (context) => {
    await needPython(context, 'openresponses-types');
    const look = { text: '[Step] Look', calls: [{ name: 'list_files', args: { path: '.' } }] };
    const { serving } = await openAiSetup([{ text: 'ok' }, look, { text: 'Seen. [Done]' }]);
    const { out, err } = await run(PYTHON, ['-c', OPEN_RESPONSES, `${serving.url}/v1/responses`, serving.token]);
    expect(out, err).not.toBe('');
    const seen: string[] = JSON.parse(out);
    expect([seen[0], seen.at(-1)]).toEqual(['response.created', 'response.completed']);
  },
  LIMIT_MS,
);

foreign(
  'publint finds nothing in the package',
  async (context) => {
    const lint = needNpm(context, 'publint/src/cli.js');
    if (!existsSync('dist/index.d.ts')) skip(context, 'no dist/index.d.ts: npm run build');
    const { code, out, err } = await lint([resolve('.'), '--strict']);
    expect(code, out + err).toBe(0);
  },
  LIMIT_MS,
);
