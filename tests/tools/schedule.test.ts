import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openOwnSchedules } from '../../src/main/scheduled-sessions.ts';
import { scheduleTool } from '../../src/tools/memory/schedule-tool.ts';

const CONTEXT = {
  work: '/ws/work',
  folder: '/ws/call',
  blob: async () => undefined,
  signal: new AbortController().signal,
};

function toolOf(session: string, folder = fs.mkdtempSync(join(tmpdir(), 'agentd-schedule-tool-'))) {
  onTestFinished(() => fs.rmSync(folder, { recursive: true, force: true }));
  const tool = scheduleTool(openOwnSchedules(session, folder));
  return {
    folder,
    effects: (args: object) => tool.describeCall(JSON.stringify(args)),
    call: async (args: object) => (await tool.call(JSON.stringify(args), CONTEXT)).text,
  };
}

const DAILY = { action: 'add', name: 'daily', text: 'look at the mail', cron: '0 8 * * *', zone: 'Europe/Berlin' };

test('a schedule of the model sends to its own session only, asks first, and the same one again changes nothing', async () => {
  const it = toolOf('=42=ufc=ro~step_1');
  expect(it.effects(DAILY)).toMatchObject({ touches: ['outside'], askReason: expect.stringContaining('by itself') });
  expect(it.effects({ action: 'list' })).toMatchObject({ touches: [] });
  expect(await it.call(DAILY)).toContain('It is due next at');
  expect(await it.call(DAILY)).toContain('It is due next at');
  expect(JSON.parse(fs.readFileSync(join(it.folder, 'daily.json'), 'utf8'))).toMatchObject({
    session: 'Büro',
    text: 'look at the mail',
  });
  expect(await it.call({ action: 'list' })).toContain('daily, next');
  await expect(it.call({ ...DAILY, text: 'other' })).rejects.toThrow('already a schedule daily');
  await expect(it.call({ ...DAILY, name: 'x', zone: 'Mars' })).rejects.toThrow('expected a time zone');
});

test('the schedules of other sessions are neither listed nor removed', async () => {
  const mine = toolOf('mine');
  await mine.call(DAILY);
  const other = toolOf('other', mine.folder);
  expect(await other.call({ action: 'list' })).toBe('No schedule sends to this session.');
  await expect(other.call({ action: 'remove', name: 'daily' })).rejects.toThrow('No schedule "daily"');
  expect(await mine.call({ action: 'remove', name: 'daily' })).toContain('is removed');
});
