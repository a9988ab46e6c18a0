import * as fs from 'node:fs';
import { expect, test } from 'vitest';
import { setup } from '../support/agentctl.ts';
import { serveHere } from './serving.ts';

test('templates and settings are those of agentctl; each setting names its origin, and no secret is shown', async () => {
  const place = setup();
  await place.here(['send', 'demo', 'hello']);
  fs.mkdirSync(place.path('templates'));
  fs.writeFileSync(place.path('templates', 'weekly.md'), '---\ndescription: The week\n---\n1. Look\n');
  fs.writeFileSync(place.path('templates', 'broken.md'), '---\nmode: sideways\n---\n1. Look\n');
  const settings = {
    mode: 'plan-act',
    limits: { minutes: 5 },
    model: { base_url: 'http://127.0.0.1:9/v1?k=abcd1234efgh5678ijkl', api_key_env: 'sk_live_1234567890' },
    secrets: ['my_password_123'],
    mcpServers: {
      one: { command: 'serve', args: ['--token=abcd1234efgh5678ijkl'], env: { NAME: 'hunter2' } },
      two: { url: 'http://127.0.0.1:9/mcp', headers: { Authorization: 'hunter3' } },
    },
  };
  fs.writeFileSync(place.path('agentd.json'), JSON.stringify(settings));
  fs.writeFileSync(place.path('.sessions', 'demo', 'session.json'), '{ "mode": "todo", "limits": { "minutes": 7 } }');
  const { ask } = await serveHere(place);
  const templates = await ask('GET', '/api/templates');
  expect(JSON.parse(templates.text)).toEqual(JSON.parse((await place.here(['templates', '--json'])).out));
  expect(JSON.parse(templates.text)).toMatchObject([
    { name: 'broken', faults: [expect.stringContaining('mode')] },
    { name: 'weekly', usage: '/run weekly', faults: [] },
  ]);

  const whole = await ask('GET', '/api/settings');
  expect(whole.json).toEqual(JSON.parse((await place.here(['settings', '--json'])).out));
  const settingOf = (answer: typeof whole, wanted: string) => {
    const found = (answer.json['settings'] as Array<{ name: string; value: unknown; from: string }>).find(
      ({ name }) => name === wanted,
    );
    return [found?.value, found?.from];
  };
  expect(settingOf(whole, 'mode')).toEqual(['plan-act', 'agentd.json']);
  expect(settingOf(whole, 'limits.minutes')).toEqual([5, 'agentd.json']);
  expect(settingOf(whole, 'limits.steps')).toEqual([4, 'default']);
  expect(settingOf(whole, 'mcpServers.one.command')).toEqual(['serve', 'agentd.json']);
  expect(settingOf(whole, 'mcpServers.one.env.NAME')).toEqual(['(hidden)', 'agentd.json']);
  expect(whole.text).not.toMatch(/hunter|abcd1234|my_password|sk_live/);
  const own = await ask('GET', '/api/settings?session=demo');
  expect(settingOf(own, 'mode')).toEqual(['todo', 'session.json']);
  expect(settingOf(own, 'limits.minutes')).toEqual([7, 'session.json']);
  expect((await ask('GET', '/api/settings?session=nobody')).status).toBe(404);
  expect(JSON.parse((await place.here(['settings', 'dem', '--json'])).out)).toEqual(own.json);

  fs.writeFileSync(place.path('.sessions', 'demo', 'session.json'), '{ "mode": "sideways" }');
  const broken = await ask('GET', '/api/settings?session=demo');
  expect(broken.json['faults']).toEqual([expect.stringContaining('session.json, line 1')]);
  // It may have set anything: what is in force is not known.
  expect(broken.json['settings']).toEqual([]);
  fs.writeFileSync(place.path('.sessions', 'demo', 'session.json'), '{ "mode": "todo" }');
  fs.writeFileSync(place.path('agentd.json'), '{ "mode": "sideways" }');
  const below = await ask('GET', '/api/settings?session=demo');
  expect(below.json).toEqual({
    settings: [{ name: 'mode', value: 'todo', from: 'session.json' }],
    faults: [expect.stringContaining('agentd.json, line 1')],
  });
});
