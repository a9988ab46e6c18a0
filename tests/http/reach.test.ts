import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { openAccessTokens } from '../../src/client/actions/access.ts';
import { workspacePaths } from '../../src/store/layout/layout.ts';
import { script, setup } from '../support/agentctl.ts';
import { serveHere } from './serving.ts';

const SECRET = 'The SALARY of Zed is 12345 EUR';
const recall = { when: 'look up', calls: [{ name: 'recall', args: { query: 'SALARY Zed' } }] };
const remember = { calls: [{ name: 'remember', args: { text: 'Zed is poor', scope: 'workspace' } }] };

test("a token reads nothing of other sessions through the model: neither by recall nor from the workspace's MEMORY.md", async () => {
  const place = setup();
  const { ask } = await serveHere(place);
  const answers = [
    { when: 'note', text: SECRET },
    recall,
    { ...remember, when: 'look up' },
    { when: 'look up', text: 'That is all.' },
  ];
  await place.serveHere('--model', script(place, answers));
  const token = await openAccessTokens(workspacePaths(place.root)).add({
    ...{ name: 'ana', role: 'send', sessions: ['report-*'] },
  });
  const ana = { headers: { authorization: `Bearer ${token}` } };
  const answered = async (session: string, text: string, user: object) => {
    const sent = await ask('POST', `/api/sessions/${session}/messages`, { ...user, body: { text } });
    await ask('GET', `/api/sessions/${session}/replies/${String(sent.json['reply'])}?wait=30`);
    return readFileSync(place.path('.sessions', session, 'events.jsonl'), 'utf8');
  };
  await answered('boss', 'note the SALARY of Zed', {});
  await answered('report-2', 'note the SALARY of Zed', {});
  const seen = await answered('report-1', 'look up the pay of Zed', ana);
  expect(seen).toContain('1. report-2');
  expect(seen).not.toContain('boss');
  expect(seen).toContain('its sender may not see all sessions');
  expect(await answered('report-3', 'look up the pay of Zed', {})).toContain('boss');
  expect(readFileSync(place.path('MEMORY.md'), 'utf8')).toContain('Zed is poor');
});
