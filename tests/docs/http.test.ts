import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { OPERATIONS } from '../../src/frontends/http/server/http-app.ts';
import { serveWorkspace } from '../http/serving.ts';
import { setup } from '../support/agentctl.ts';
import { checkTranscript, missingPrograms } from './transcript.ts';

test.for([
  { path: 'docs/http.md', flags: [] },
  { path: 'docs/openai.md', flags: ['--openai'] },
])('the transcript of $path comes out as it is shown', async ({ path, flags }, context) => {
  const missing = missingPrograms();
  context.skip(missing.length > 0, `not installed: ${missing.join(', ')}`);
  const place = setup();
  await place.serve('--model', 'runbook');
  const { url, token } = await serveWorkspace(place, ...flags);
  checkTranscript(path, { URL: url, TOKEN: token, OPENAI_BASE_URL: `${url}/v1`, OPENAI_API_KEY: token });
});

test('the table of docs/http.md names every operation', () => {
  const page = readFileSync('docs/http.md', 'utf8');
  const named = (path: string) => page.includes(`${path}\``) || page.includes(`${path}?`);
  const paths = OPERATIONS.map(({ path }) => path.replace('/api/sessions/{session}', '…'));
  expect(paths.filter((path) => !named(path))).toEqual([]);
});
